"""The run whose output is a run's input: what it is called, and whether its output can be read.
Pure.

It is looked for when the run is launched, and is then part of the contract: whatever becomes of
that run later, every attempt reads the same output.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from inferrun.contract import InputRun
from inferrun.fields.problems import describe
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.public_contract import HIDDEN, published_contract
from inferrun.names import job_base_name, scheduled_run_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.fire_times import fire_times
from inferrun.resources.resolution import resolve
from inferrun.resources.run import SUCCESSFUL_JOBS_HISTORY_LIMIT
from inferrun.resources.status import InputRunStatus
from inferrun.stores import READABLE_LABELS, RunStorage
from inferrun.timestamps import rfc3339


@dataclass(frozen=True)
class InputReference:
    """The run whose output is the input, by its name."""

    name: str
    schedule: str = ""
    """The schedule that creates it, if the config names that."""

    due: datetime | None = None
    """The scheduled time for which the schedule creates it."""


def input_reference(
    run: InferenceRun, config: InferenceConfig, *, runner_image: str
) -> InputReference | None:
    """The run whose output is the input; None for another input. Raises LaunchBlocked for a run
    that cannot have one.

    The config must be valid. Another image may know the label in its own way.
    """
    if RunStorage.label not in (config.spec.storage.input or {}) or config.spec.image not in (
        None,
        runner_image,
    ):
        return None
    resolved = resolve(run, config, is_our_runner=True)
    if resolved.problems:
        raise LaunchBlocked(Reason.INVALID_SPEC, describe(resolved.problems), is_retryable=False)
    storage, span = RunStorage.model_validate(resolved.input[RunStorage.label]), run.spec.interval
    if storage.schedule is None:
        found = InputReference(storage.name or "")
    elif span is None:
        text = (
            f'storage.input.run.schedule of the InferenceConfig is "{storage.schedule}", whose run for the end of this run\'s '
            "interval is the input; this run has no interval: set spec.interval, or let a schedule start it"
        )
        raise LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)
    else:
        found = InputReference(
            scheduled_run_name(storage.schedule, rfc3339(span.end)), storage.schedule, span.end
        )
    if found.name == run.metadata.name:
        raise cycle([found.name, found.name])
    return found


def cycle(names: Sequence[str]) -> LaunchBlocked:
    """Each of these runs reads the output of the next one, and the last one is the first one."""
    text = f"the run would wait for itself: {' reads '.join(names)}; correct storage.input.run of an InferenceConfig"
    return LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)


def input_run(found: InferenceRun) -> InputRun:
    """The run as the contract has it. Raises LaunchBlocked while it has not succeeded, and if its
    output cannot be read."""
    name, status = found.metadata.name, found.status
    if found.spec.is_schedule:
        raise _unusable(
            found, "is a schedule; set storage.input.run.schedule to read its run for the same time"
        )
    if found.spec.backfill is not None:
        raise _unusable(
            found, "is a back-fill; name one of its runs, or set storage.input.run.schedule"
        )
    if status.phase is Phase.FAILED:
        text = f"InferenceRun {name}, whose output is the input, failed: {status.reason}: {status.message}"
        raise LaunchBlocked(Reason.INPUT_RUN_FAILED, text, is_retryable=False)
    if status.phase is not Phase.SUCCEEDED:
        state = (
            f"{status.phase} ({status.reason})" if status.phase is not None else "not accepted yet"
        )
        text = f"InferenceRun {name}, whose output is the input, is {state}; this run starts when it has succeeded"
        raise LaunchBlocked(Reason.WAITING_FOR_RUN, text)
    if found.spec.dry_run:
        raise _unusable(found, "was a dry run, which stores nothing")
    output, stored = status.output, published_contract(found).get("output")
    is_readable = (
        isinstance(stored, dict) and len(stored) == 1 and set(stored) <= set(READABLE_LABELS)
    )
    if output is None or not output.sha256 or not is_readable or HIDDEN in json.dumps(stored):
        allowed = f"it must be written by the built-in runner with one of the labels {', '.join(READABLE_LABELS)}"
        raise _unusable(
            found, f"has no output with a manifest, by which it could be read: {allowed}"
        )
    return InputRun(
        name=name,
        run_id=found.metadata.uid,
        job_name=job_base_name(name, found.metadata.uid),
        manifest_sha256=output.sha256,
        output=stored,
    )


def missing(reference: InputReference, schedule: InferenceRun | None) -> LaunchBlocked:
    """There is no run of that name; `schedule` is the one that creates it, None if that is missing,
    too."""
    text = f"InferenceRun {reference.name}, whose output is the input, does not exist"
    if reference.due is None:
        return LaunchBlocked(
            Reason.WAITING_FOR_RUN, f"{text}; this run starts when it has succeeded"
        )
    if schedule is None or not schedule.spec.is_schedule:
        return LaunchBlocked(
            Reason.WAITING_FOR_RUN, f"{text}: there is no schedule {reference.schedule}"
        )
    spec, is_valid = schedule.spec, schedule.status.phase in (Phase.SCHEDULED, Phase.SUSPENDED)
    expression = spec.schedule or ""
    zone = spec.time_zone or "Etc/UTC"
    kept = spec.successful_jobs_history_limit
    why = "has not created it yet, or it was deleted (successfulJobsHistoryLimit is "
    why += f"{SUCCESSFUL_JOBS_HISTORY_LIMIT if kept is None else kept})"
    before = reference.due - timedelta(seconds=1)
    if is_valid and next(fire_times(expression, time_zone=zone, after=before)) != reference.due:
        why = f"({expression}, {zone}) has no run at {rfc3339(reference.due)}"
    return LaunchBlocked(Reason.WAITING_FOR_RUN, f"{text}: schedule {reference.schedule} {why}")


def pinned_input_run(started: InferenceRun) -> InputRun | None:
    """The input of a run, so that its later launches and its retry read the same; None if it never
    started or has another input."""
    try:
        return InputRun.model_validate(published_contract(started).get("inputRun"))
    except ValidationError:
        return None


def seen_of(reference: InputReference, found: InferenceRun | None) -> InputRunStatus:
    """The run as the status names it."""
    if found is None:
        return InputRunStatus(name=reference.name)
    return InputRunStatus(name=reference.name, uid=found.metadata.uid, phase=found.status.phase)


def seen_in(found: InputRun | None) -> InputRunStatus | None:
    """What is seen in a contract of the run that it names as its input."""
    return (
        InputRunStatus(name=found.name, uid=found.run_id, phase=Phase.SUCCEEDED)
        if found is not None
        else None
    )


@contextmanager
def noting(seen: InputRunStatus | None) -> Iterator[None]:
    """Have what blocks the launch, also if it is something else, name the run whose output is the
    input."""
    try:
        yield
    except LaunchBlocked as blocker:
        blocker.input_run = blocker.input_run or seen
        raise


def _unusable(found: InferenceRun, why: str) -> LaunchBlocked:
    text = f"InferenceRun {found.metadata.name}, whose output is the input, {why}"
    return LaunchBlocked(Reason.INPUT_RUN_WITHOUT_OUTPUT, text, is_retryable=False)
