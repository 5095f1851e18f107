"""Decides what to do about a run from its current state alone. Pure.

A watch event only triggers a decision; it never influences it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import ValidationError

from control.trust.allowed import disallowed
from inferrun import wellknown
from inferrun.fields.problems import Problem, describe, parse_problems
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun, parse_config
from inferrun.resources.placement import Placement
from inferrun.resources.validation import config_problems, config_warnings, run_problems
from inferrun.run_defaults import Defaults
from inferrun.run_status import REJECTIONS
from inferrun.text import shell_command

_DIGEST: Final = "digest"
_KEPT_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
_KEPT_ANNOTATIONS: Final = (wellknown.ANNOTATION_PAUSED,)


@dataclass(frozen=True, slots=True)
class ConfigDigest:
    """The first problems of a config, and what it names that an installation may not allow."""

    problems: tuple[Problem, ...] = ()
    service_account_name: str | None = None
    image: str | None = None
    placement: Placement = field(default_factory=Placement)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: InferenceConfig) -> "ConfigDigest":
        """The digest of a config that could be parsed."""
        return cls(
            problems=config_problems(config),
            service_account_name=config.spec.service_account_name,
            image=config.spec.image,
            placement=config.spec.placement,
            warnings=config_warnings(config),
        )


def digest_config(item: Object) -> Object:
    """The config for the cache of an informer."""
    metadata = {key: item["metadata"][key] for key in _KEPT_METADATA if key in item["metadata"]}
    annotations = item["metadata"].get("annotations") or {}
    metadata["annotations"] = {key: annotations[key] for key in _KEPT_ANNOTATIONS if key in annotations}
    try:
        digest = ConfigDigest.of(parse_config({key: value for key, value in item.items() if key != "status"}))
    except ValidationError as error:
        digest = ConfigDigest(parse_problems(error))
    return {"metadata": metadata, "status": item.get("status") or {}, _DIGEST: digest}


def digest_of(cached: Object) -> ConfigDigest:
    found: ConfigDigest = cached[_DIGEST]
    return found


class ActionKind(StrEnum):
    """What the shim does about a run."""

    NOTHING = "Nothing"
    REJECT = "Reject"
    START = "Start"
    CANCEL = "Cancel"
    SCHEDULE = "Schedule"
    CLEAN_UP = "CleanUp"


@dataclass(frozen=True)
class Action:
    """What to do; `reason` and `message` are written to the status if the spec is rejected."""

    kind: ActionKind
    reason: Reason = Reason.ACCEPTED
    message: str = ""


NOTHING = Action(ActionKind.NOTHING)

NAMED_RUNS = 5
"""How many runs the Event on an edited config names."""

CORRECTABLE = (*REJECTIONS, Reason.TOO_MANY_ACTIVE_RUNS)
"""The reasons of a run that has no workflow: the shim writes the next status, too."""

OWN_REASONS = (*CORRECTABLE, Reason.ACCEPTED)
"""The reasons of a run of whose workflow nothing has been heard."""

_REASONS = {"spec.schedule": Reason.INVALID_SCHEDULE, "spec.timeZone": Reason.INVALID_TIME_ZONE}


NO_LIMITS: Final = Defaults()


def decide(run: InferenceRun, *, defaults: Defaults = NO_LIMITS) -> Action:
    """The action for an existing run."""
    if run.metadata.is_being_deleted:
        return Action(ActionKind.CLEAN_UP)
    # A run that the Krateo controller has executed is never executed again.
    is_krateos = run.status.phase is None and (run.status.conditions or run.status.contract or run.status.job_status)
    if run.is_paused or run.status.is_terminal or is_krateos:
        return NOTHING
    if (rejection := _rejection(run, defaults)) is not None:
        return rejection
    if run.spec.is_schedule:
        return Action(ActionKind.SCHEDULE)
    if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true" and run.status.phase is not None:
        return Action(ActionKind.CANCEL)
    return Action(ActionKind.START)


def _rejection(run: InferenceRun, defaults: Defaults) -> Action | None:
    """Why the run is not accepted: it is a copy of one that was executed, or its spec is invalid; None if it is."""
    metadata = run.metadata
    uid = metadata.annotations.get(wellknown.ANNOTATION_STARTED_AS, metadata.uid)
    if uid != metadata.uid and not run.spec.is_schedule and may_write_status(run):
        mark = f"{wellknown.ANNOTATION_STARTED_AS}-"
        execute = shell_command("kubectl", "-n", metadata.namespace, "annotate", "inferencerun", metadata.name, mark)
        text = (
            f"a run with the UID {uid} was executed, and this one is a copy of it without its status, from a backup or an "
            f"exported manifest: it is not executed again. To execute it: {execute}"
        )
        return Action(ActionKind.REJECT, Reason.EXECUTED_BEFORE, text)
    seconds = defaults.min_schedule_interval_seconds
    problems = run_problems(run, min_schedule_interval_seconds=seconds) if not run.status.contract else ()
    if not problems:
        return None
    return Action(ActionKind.REJECT, _REASONS.get(problems[0].field, Reason.INVALID_SPEC), describe(problems))


def cancellation_notice(schedule: InferenceRun) -> str:
    """What the Event on a schedule with a request for cancellation says, which only its runs can be; empty without one.

    The same for every run of the schedule, so that there is one Event.
    """
    metadata = schedule.metadata
    if metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) != "true":
        return ""
    kubectl = ("kubectl", "-n", metadata.namespace)
    patch = ("patch", "inferencerun", metadata.name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    stop = shell_command(*kubectl, *patch)
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={metadata.uid}"
    cancel = shell_command(
        *kubectl, "annotate", "inferenceruns", "-l", selector, f"{wellknown.ANNOTATION_CANCEL_REQUESTED}=true"
    )
    return (
        f"the annotation {wellknown.ANNOTATION_CANCEL_REQUESTED} has no effect on a schedule. To stop it: {stop}. "
        f"To cancel its runs: {cancel}"
    )


def may_write_status(run: InferenceRun) -> bool:
    """Whether the shim may write the run's status: only if it has none yet, or one that the shim wrote itself."""
    return run.status.phase is None or (run.status.phase is Phase.PENDING and run.status.reason in CORRECTABLE)


def has_unacknowledged_edit(run: InferenceRun) -> bool:
    """Whether the run's workflow has read an older spec than the current one and has not been sent the newer one.

    Without an acknowledged generation the workflow has not read the spec yet, and after a rejection it did not exist.
    """
    observed = run.status.observed_generation
    return observed is not None and run.metadata.generation > observed and not may_write_status(run)


def edit_notice(runs: Sequence[str], *, generation: int) -> str:
    """What the Event on an edited config says about the runs that the edit does not affect; empty without such runs."""
    if not runs:
        return ""
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''} in progress"
    names = ", ".join(sorted(runs)[:NAMED_RUNS])
    more = f" and {len(runs) - NAMED_RUNS} more" if len(runs) > NAMED_RUNS else ""
    return (
        f"generation {generation} does not affect {count}, which keep what they started with: {names}{more}; "
        "to use it, create new runs"
    )


def config_verdict(config: ConfigDigest, defaults: Defaults, *, runner_account: str) -> Action:
    """What to report on the status of a config."""
    found = disallowed(
        defaults,
        runner_account=runner_account,
        service_account=config.service_account_name,
        image=config.image,
        placement=config.placement,
    )
    problems = (*config.problems, *found)
    if not problems:
        return Action(ActionKind.NOTHING, Reason.READY, "; ".join(("runs can use this config", *config.warnings)))
    is_storage = any(problem.field.startswith("spec.storage") for problem in problems)
    return Action(ActionKind.REJECT, Reason.INVALID_STORAGE if is_storage else Reason.INVALID_SPEC, describe(problems))
