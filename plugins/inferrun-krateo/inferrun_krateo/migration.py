"""What `inferrun migrate` does about each object that the earlier Go controller left. Pure.

Everything is derived from the objects as they are, so that an interrupted migration continues where
it stopped and a complete one has nothing left to do. Never planned: executing a run again, and
ending a Job that runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from inferrun import wellknown
from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.fields.problems import describe
from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.kube.objects import Object
from inferrun.names import job_base_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.validation import run_problems
from inferrun.run_status import ended_status
from inferrun.text import one_line, shell_command
from inferrun.timestamps import parse, rfc3339

ANNOTATION_SUSPENDED: Final = f"{wellknown.DOMAIN}/suspended-by-migration"
"""On a CronJob: when the migration suspended it. Without it, a user did."""

SETTLE: Final = timedelta(seconds=5)
"""How long after a CronJob was suspended its controller may still create a Job that was due
before."""

CONTAINER: Final = "inference"
CONTROLLER: Final = "kserve-controller"


class MigrationStep(StrEnum):
    """What is done about an object; the last three leave it as it is."""

    RECORD = "record"
    """Write the outcome of a run that the earlier controller executed."""
    SUSPEND_CRON_JOB = "suspend"
    SUSPEND_RUN = "suspend run"
    """Carry over that a user had suspended the CronJob."""
    HAND_OVER = "hand over"
    """Remove the earlier controller's status of a schedule, so that the shim schedules it."""
    STRIP = "strip finalizer"
    WAIT = "wait"
    MANUAL = "to do"
    LEAVE = "leave"

    @property
    def is_change(self) -> bool:
        """Whether the step writes something."""
        return self not in (MigrationStep.WAIT, MigrationStep.MANUAL, MigrationStep.LEAVE)


@dataclass(frozen=True)
class LegacyOutcome:
    """How a run that the earlier controller executed has ended."""

    phase: Phase
    reason: Reason
    message: str
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class MigrationAction:
    """One step, and why. `is_due` is false for a step that must wait for an earlier one to take
    effect."""

    step: MigrationStep
    kind: str
    namespace: str
    name: str
    why: str
    target: Object = field(default_factory=dict, repr=False)
    change: Object = field(default_factory=dict, repr=False)
    """The merge patch of the target."""
    is_due: bool = True


@dataclass(frozen=True)
class Owned:
    """What belongs to a run; `jobs` include those of its CronJob."""

    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    cron_job: Object | None = None


@dataclass(frozen=True)
class _Planned:
    item: Object
    run: InferenceRun

    @property
    def was_executed(self) -> bool:
        """Whether the status is the earlier controller's."""
        status = self.run.status
        return status.phase is None and bool(
            status.conditions or status.contract or status.job_status
        )

    def act(
        self, step: MigrationStep, why: str, change: Object | None = None, *, is_due: bool = True
    ) -> MigrationAction:
        metadata = self.run.metadata
        kind = wellknown.RUN_KIND
        return MigrationAction(
            step, kind, metadata.namespace, metadata.name, why, self.item, change or {}, is_due
        )

    def release(self, why: str, *, is_due: bool = True) -> list[MigrationAction]:
        """Remove the earlier controller's finalizer, if the run has it."""
        finalizers = self.run.metadata.finalizers
        others = [name for name in finalizers if name != wellknown.LEGACY_FINALIZER]
        change = {"metadata": {"finalizers": others}}
        is_held = len(others) < len(finalizers)
        return [self.act(MigrationStep.STRIP, why, change, is_due=is_due)] if is_held else []


def plan_run(
    item: Object, run: InferenceRun, owned: Owned, *, now: datetime
) -> list[MigrationAction]:
    """The actions for one run, in order; none if the earlier controller has left nothing."""
    planned = _Planned(item, run)
    if run.is_paused:
        why = f"annotation {wellknown.ANNOTATION_PAUSED} is set"
        return (
            [planned.act(MigrationStep.LEAVE, why)]
            if planned.was_executed or planned.release(why)
            else []
        )
    if run.metadata.is_being_deleted:
        return planned.release("the run is being deleted")
    unfinished = (
        job for job in owned.jobs if not (_condition(job, "Complete") or _condition(job, "Failed"))
    )
    running = next(map(_name, unfinished), "")
    if run.spec.is_schedule:
        return _plan_schedule(planned, owned.cron_job, running=running, now=now)
    if not planned.was_executed:
        return planned.release("the earlier controller does not have to see its deletion")
    if running:
        why = f"Job {running} of the earlier controller is still running; its outcome is recorded when it has ended"
        return [planned.act(MigrationStep.WAIT, why)]
    base = job_base_name(run.metadata.name, run.metadata.uid)
    last = owned.jobs[-1] if owned.jobs else None
    outcome = outcome_of(next((job for job in owned.jobs if _name(job) == base), last), owned.pods)
    why = f"{outcome.phase}/{outcome.reason}: {outcome.message}"
    status = ended_status(
        run,
        phase=outcome.phase,
        reason=outcome.reason,
        message=outcome.message,
        now=now,
        finished=outcome.finished_at,
        # of the Job, by the clock of its controller; a run from a backup was created later
        earliest=outcome.started_at,
        start_time=outcome.started_at,
        exit_code=outcome.exit_code,
        delivery="Unknown",
    )
    recorded = planned.act(MigrationStep.RECORD, why, {"status": status.to_manifest()})
    return [recorded, *planned.release("its outcome is recorded")]


def _plan_schedule(
    planned: _Planned, cron_job: Object | None, *, running: str, now: datetime
) -> list[MigrationAction]:
    run, handed_over, actions, is_due = planned.run, "the schedule is handed over", [], True
    is_suspended = cron_job is None or bool(cron_job["spec"].get("suspend"))
    if not planned.was_executed and is_suspended:
        return planned.release(handed_over)
    if problems := run_problems(run):
        why = f"CronJob stays in charge until the schedule is valid: {describe(problems)}"
        return [planned.act(MigrationStep.MANUAL, why)]
    if cron_job is not None:
        since = (cron_job["metadata"].get("annotations") or {}).get(ANNOTATION_SUSPENDED)
        is_due = is_suspended and (since is None or now - parse(since) >= SETTLE)
        name = _name(cron_job)
        if not is_suspended:
            why = "its schedule passes to the InferenceRun; Jobs that it has started continue"
            change = {
                "metadata": {"annotations": {ANNOTATION_SUSPENDED: rfc3339(now)}},
                "spec": {"suspend": True},
            }
            namespace = run.metadata.namespace
            actions.append(
                MigrationAction(
                    MigrationStep.SUSPEND_CRON_JOB,
                    "CronJob",
                    namespace,
                    name,
                    why,
                    cron_job,
                    change,
                )
            )
        elif since is None and not run.spec.suspend:
            why = f"CronJob {name} was suspended by a user; the schedule stays suspended"
            actions.append(planned.act(MigrationStep.SUSPEND_RUN, why, {"spec": {"suspend": True}}))
    if planned.was_executed and running:
        why = (
            f"Job {running} of the CronJob is still running; the schedule starts when it has ended"
        )
        return [*actions, planned.act(MigrationStep.WAIT, why)]
    if planned.was_executed:
        why = f"the schedule {run.spec.schedule!r} starts, in time zone {run.spec.time_zone or 'Etc/UTC'}"
        change = {"status": {"conditions": None, "contract": None, "jobStatus": None}}
        actions.append(planned.act(MigrationStep.HAND_OVER, why, change, is_due=is_due))
    return [*actions, *planned.release(handed_over, is_due=all(one.is_due for one in actions))]


def outcome_of(job: Object | None, pods: Sequence[Object]) -> LegacyOutcome:
    """The outcome of a run from its Job; unknown without a Job. Such a run is never executed
    again."""
    if job is None:
        message = (
            "the earlier controller executed this run, and its Job no longer exists, so that its outcome is unknown; "
            "to execute it again, create a run with another name"
        )
        return LegacyOutcome(Phase.FAILED, Reason.OUTCOME_UNKNOWN, message)
    status, failed = job.get("status") or {}, _condition(job, "Failed") or {}
    begun = status.get("startTime")
    ended = status.get("completionTime") or failed.get("lastTransitionTime")
    times = {
        "started_at": parse(begun) if begun else None,
        "finished_at": parse(ended) if ended else None,
    }
    what = f"Job {_name(job)} of the earlier controller"
    if _condition(job, "Complete") is not None:
        return LegacyOutcome(
            Phase.SUCCEEDED, Reason.SUCCEEDED, f"{what} succeeded", int(ExitCode.DONE), **times
        )
    ends = [  # of the container, in the order of the Pods' ends
        (str(end.get("finishedAt", "")), int(end["exitCode"]))
        for pod in pods
        for one in (pod.get("status") or {}).get("containerStatuses") or []
        if one.get("name") == CONTAINER
        if (end := (one.get("state") or {}).get("terminated")) is not None
    ]
    code = max(ends)[1] if ends else None
    if failed.get("reason") == "DeadlineExceeded":
        return LegacyOutcome(
            Phase.FAILED, Reason.DEADLINE_EXCEEDED, f"{what} reached its time limit", code, **times
        )
    if code is None:
        message = f"{what} failed: {failed.get('message') or 'no exit code is known'}"
        return LegacyOutcome(Phase.FAILED, Reason.RUNNER_FAILED, message, None, **times)
    return LegacyOutcome(
        Phase.FAILED, reason_of(code), f"{what} failed: exit code {meaning_of(code)}", code, **times
    )


def plan_secrets(
    runs: Iterable[InferenceRun], configs: Iterable[InferenceConfig]
) -> list[MigrationAction]:
    """The Secrets that runs refer to in other namespaces: a Pod can only mount those of its own."""
    by_key = {(config.metadata.namespace, config.metadata.name): config for config in configs}
    found: dict[tuple[str, str, str], MigrationAction] = {}
    for run in runs:
        config, target = by_key.get((run.config_namespace, run.config_name)), run.metadata.namespace
        for name, source in _secrets_of(config) if config is not None else ():
            if source and source != target:
                copy = shell_command(
                    "inferrun", "copy-secret", name, "--from", source, "--to", target
                )
                found[name, source, target] = MigrationAction(
                    MigrationStep.MANUAL, "Secret", target, name, copy
                )
    return list(found.values())


def _secrets_of(config: InferenceConfig) -> Iterator[tuple[str, str]]:
    credentials = config.spec.credentials_ref
    if credentials is not None:
        yield credentials.name, credentials.namespace or ""
    for end in (config.spec.storage.input, config.spec.storage.output):
        label = (end or {}).get("krateo")
        call = label.get("api") if isinstance(label, dict) else None
        reference = call.get("endpointRef") if isinstance(call, dict) else None
        if isinstance(reference, dict) and isinstance(reference.get("name"), str):
            yield str(reference["name"]), str(reference.get("namespace") or "")


def plan_controllers(deployments: Iterable[Object]) -> list[MigrationAction]:
    """What has to be stopped first: two controllers of the same runs would undo each other's
    work."""
    found = []
    for item in deployments:
        namespace, name, spec = item["metadata"]["namespace"], _name(item), item["spec"]
        images = (
            str(one.get("image", "")) for one in spec["template"]["spec"].get("containers") or []
        )
        is_controller = any(
            image.split("@")[0].rsplit("/", 1)[-1].split(":")[0] == CONTROLLER for image in images
        )
        if is_controller and (
            spec.get("replicas", 1) or (item.get("status") or {}).get("replicas")
        ):
            why = f"stop it: kubectl -n {namespace} scale deployment {name} --replicas=0"
            found.append(MigrationAction(MigrationStep.MANUAL, "Deployment", namespace, name, why))
    return found


def lines(actions: Sequence[MigrationAction]) -> Iterator[str]:
    """The actions as a table. Objects from before a rule existed contain any text."""
    rows = [("ACTION", "OBJECT", "WHY")]
    rows += [
        (
            str(one.step),
            one_line(f"{one.kind} {one.namespace}/{one.name}"),
            one_line(one.why, limit=MESSAGE_LIMIT),
        )
        for one in actions
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for first, second, third in rows:
        yield f"{first:{widths[0]}}  {second:{widths[1]}}  {third}"


def _condition(job: Object, kind: str) -> Object | None:
    conditions: list[Object] = (job.get("status") or {}).get("conditions") or []
    return next(
        (one for one in conditions if one.get("type") == kind and one.get("status") == "True"), None
    )


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])
