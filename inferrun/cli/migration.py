"""What `inferrun migrate` does about each object that the earlier Go controller left. Pure.

Everything is derived from the objects as they are, so that an interrupted migration continues where it stopped and a
complete one has nothing left to do. Never planned: executing a run again, and ending a Job that runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from inferrun import wellknown
from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.kube.objects import Object
from inferrun.names import job_base_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.scalars import MESSAGE_LIMIT
from inferrun.resources.validation import describe, run_problems
from inferrun.text import one_line, shell_command
from inferrun.timestamps import parse

ANNOTATION_SUSPENDED: Final = f"{wellknown.DOMAIN}/suspended-by-migration"
"""On a CronJob: when the migration suspended it. Without it, a user did."""

SETTLE: Final = timedelta(seconds=5)
"""How long after a CronJob was suspended its controller may still create a Job that was due before."""

CONTAINER: Final = "inference"
CONTROLLER: Final = "kserve-controller"


class Step(StrEnum):
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
        return self not in (Step.WAIT, Step.MANUAL, Step.LEAVE)


@dataclass(frozen=True)
class Outcome:
    """How a run that the earlier controller executed has ended."""

    phase: Phase
    reason: Reason
    message: str
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Action:
    """One step, and why. `is_due` is false for a step that must wait for an earlier one to take effect."""

    step: Step
    kind: str
    namespace: str
    name: str
    why: str
    target: Object = field(default_factory=dict, repr=False)
    outcome: Outcome | None = None
    is_due: bool = True


@dataclass(frozen=True)
class Owned:
    """What belongs to a run; `jobs` include those of its CronJob."""

    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    cron_job: Object | None = None


def plan_run(item: Object, run: InferenceRun, owned: Owned, *, now: datetime) -> list[Action]:
    """The actions for one run, in order; none if the earlier controller has left nothing."""
    if run.is_paused:
        why = f"annotation {wellknown.ANNOTATION_PAUSED} is set"
        return [_action(Step.LEAVE, run, item, why)] if _has_traces(run) else []
    if run.metadata.is_being_deleted:
        return list(_strip(run, item, why="the run is being deleted"))
    if run.spec.is_schedule:
        return _plan_schedule(item, run, owned, now=now)
    return _plan_single(item, run, owned)


def was_executed(run: InferenceRun) -> bool:
    """Whether the status is the earlier controller's."""
    status = run.status
    return status.phase is None and bool(status.conditions or status.contract or status.job_status)


def _has_traces(run: InferenceRun) -> bool:
    return was_executed(run) or wellknown.LEGACY_FINALIZER in run.metadata.finalizers


def _plan_single(item: Object, run: InferenceRun, owned: Owned) -> list[Action]:
    if not was_executed(run):
        return list(_strip(run, item, why="the earlier controller does not have to see its deletion"))
    running = [job for job in owned.jobs if not _is_finished(job)]
    if running:
        why = f"Job {_name(running[0])} of the earlier controller is still running; its outcome is recorded when it has ended"
        return [_action(Step.WAIT, run, item, why)]
    outcome = outcome_of(_own_job(run, owned.jobs), owned.pods)
    record = _action(Step.RECORD, run, item, f"{outcome.phase}/{outcome.reason}: {outcome.message}", outcome=outcome)
    return [record, *_strip(run, item, why="its outcome is recorded")]


def _plan_schedule(item: Object, run: InferenceRun, owned: Owned, *, now: datetime) -> list[Action]:
    cron_job = owned.cron_job
    if not was_executed(run) and (cron_job is None or _is_suspended(cron_job)):
        return list(_strip(run, item, why="the schedule is handed over"))
    problems = run_problems(run)
    if problems:
        why = f"CronJob stays in charge until the schedule is valid: {describe(problems)}"
        return [_action(Step.MANUAL, run, item, why)]
    actions = list(_end_cron_job(run, item, cron_job)) if cron_job is not None else []
    if was_executed(run):
        actions.append(_hand_over(item, run, owned, now=now))
    if actions and actions[-1].step is Step.WAIT:
        return actions
    return [*actions, *_strip(run, item, why="the schedule is handed over", is_due=all(one.is_due for one in actions))]


def _end_cron_job(run: InferenceRun, item: Object, cron_job: Object) -> Iterator[Action]:
    if not _is_suspended(cron_job):
        why = "its schedule passes to the InferenceRun; Jobs that it has started continue"
        yield Action(Step.SUSPEND_CRON_JOB, "CronJob", run.metadata.namespace, _name(cron_job), why, cron_job)
    elif ANNOTATION_SUSPENDED not in _annotations(cron_job) and not run.spec.suspend:
        why = f"CronJob {_name(cron_job)} was suspended by a user; the schedule stays suspended"
        yield _action(Step.SUSPEND_RUN, run, item, why)


def _hand_over(item: Object, run: InferenceRun, owned: Owned, *, now: datetime) -> Action:
    running = [job for job in owned.jobs if not _is_finished(job)]
    if running:
        why = f"Job {_name(running[0])} of the CronJob is still running; the schedule starts when it has ended"
        return _action(Step.WAIT, run, item, why)
    why = f"the schedule {run.spec.schedule!r} starts, in time zone {run.spec.time_zone or 'Etc/UTC'}"
    is_due = owned.cron_job is None or _has_settled(owned.cron_job, now=now)
    return _action(Step.HAND_OVER, run, item, why, is_due=is_due)


def _has_settled(cron_job: Object, *, now: datetime) -> bool:
    since = _annotations(cron_job).get(ANNOTATION_SUSPENDED)
    return _is_suspended(cron_job) and (since is None or now - parse(since) >= SETTLE)


def _strip(run: InferenceRun, item: Object, *, why: str, is_due: bool = True) -> Iterator[Action]:
    if wellknown.LEGACY_FINALIZER in run.metadata.finalizers:
        yield _action(Step.STRIP, run, item, why, is_due=is_due)


def outcome_of(job: Object | None, pods: Sequence[Object]) -> Outcome:
    """The outcome of a run from its Job; unknown if there is none. Such a run is never executed again."""
    if job is None:
        message = (
            "the earlier controller executed this run, and its Job no longer exists, so that its outcome is unknown; "
            "to execute it again, create a run with another name"
        )
        return Outcome(Phase.FAILED, Reason.OUTCOME_UNKNOWN, message)
    status = job.get("status") or {}
    started, finished = status.get("startTime"), status.get("completionTime")
    times = {"started_at": parse(started) if started else None, "finished_at": parse(finished) if finished else None}
    if _condition(job, "Complete") is not None:
        message = f"Job {_name(job)} of the earlier controller succeeded"
        return Outcome(Phase.SUCCEEDED, Reason.SUCCEEDED, message, int(ExitCode.DONE), **times)
    failed = _condition(job, "Failed") or {}
    times["finished_at"] = times["finished_at"] or _time(failed.get("lastTransitionTime"))
    code = _exit_code(pods)
    if failed.get("reason") == "DeadlineExceeded":
        message = f"Job {_name(job)} of the earlier controller reached its time limit"
        return Outcome(Phase.FAILED, Reason.DEADLINE_EXCEEDED, message, code, **times)
    ended = (
        f"exit code {meaning_of(code)}" if code is not None else str(failed.get("message") or "no exit code is known")
    )
    reason = reason_of(code) if code is not None else Reason.RUNNER_FAILED
    return Outcome(Phase.FAILED, reason, f"Job {_name(job)} of the earlier controller failed: {ended}", code, **times)


def plan_secrets(runs: Iterable[InferenceRun], configs: Iterable[InferenceConfig]) -> list[Action]:
    """The Secrets that runs refer to in other namespaces: a Pod can only mount those of its own."""
    by_key = {(config.metadata.namespace, config.metadata.name): config for config in configs}
    wanted: dict[tuple[str, str, str], None] = {}
    for run in runs:
        config = by_key.get((run.config_namespace, run.spec.config_ref.name))
        for name, namespace in _secrets_of(config) if config is not None else ():
            if namespace and namespace != run.metadata.namespace:
                wanted[name, namespace, run.metadata.namespace] = None
    return [
        Action(
            Step.MANUAL,
            "Secret",
            target,
            name,
            shell_command("inferrun", "copy-secret", name, "--from", source, "--to", target),
        )
        for name, source, target in wanted
    ]


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


def plan_controllers(deployments: Iterable[Object]) -> list[Action]:
    """What has to be stopped first: two controllers of the same runs would undo each other's work."""
    return [
        Action(Step.MANUAL, "Deployment", namespace, name, f"stop it: {stop}")
        for item in deployments
        if _is_controller(item) and _is_running(item)
        for namespace, name in [(item["metadata"]["namespace"], _name(item))]
        for stop in [f"kubectl -n {namespace} scale deployment {name} --replicas=0"]
    ]


def _is_controller(deployment: Object) -> bool:
    containers = deployment["spec"]["template"]["spec"].get("containers") or []
    images = (str(container.get("image", "")) for container in containers)
    return any(image.split("@")[0].rsplit("/", 1)[-1].split(":")[0] == CONTROLLER for image in images)


def _is_running(deployment: Object) -> bool:
    return bool(deployment["spec"].get("replicas", 1)) or bool((deployment.get("status") or {}).get("replicas"))


def lines(actions: Sequence[Action]) -> Iterator[str]:
    """The actions as a table. Objects from before a rule existed contain any text."""
    rows = [("ACTION", "OBJECT", "WHY")]
    rows += [
        (str(one.step), one_line(f"{one.kind} {one.namespace}/{one.name}"), one_line(one.why, limit=MESSAGE_LIMIT))
        for one in actions
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for first, second, third in rows:
        yield f"{first:{widths[0]}}  {second:{widths[1]}}  {third}"


def _action(
    step: Step, run: InferenceRun, item: Object, why: str, *, outcome: Outcome | None = None, is_due: bool = True
) -> Action:
    metadata = run.metadata
    return Action(step, wellknown.RUN_KIND, metadata.namespace, metadata.name, why, item, outcome, is_due)


def _own_job(run: InferenceRun, jobs: Sequence[Object]) -> Object | None:
    base = job_base_name(run.metadata.name, run.metadata.uid)
    return next((job for job in jobs if _name(job) == base), jobs[-1] if jobs else None)


def _exit_code(pods: Sequence[Object]) -> int | None:
    """Of the container of the last Pod that ended."""
    ends = [
        (str(end.get("finishedAt", "")), int(end["exitCode"]))
        for pod in pods
        for status in (pod.get("status") or {}).get("containerStatuses") or []
        if status.get("name") == CONTAINER
        if (end := (status.get("state") or {}).get("terminated")) is not None
    ]
    return max(ends)[1] if ends else None


def _condition(job: Object, kind: str) -> Object | None:
    for item in (job.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind and item.get("status") == "True":
            found: Object = item
            return found
    return None


def _is_finished(job: Object) -> bool:
    return _condition(job, "Complete") is not None or _condition(job, "Failed") is not None


def _is_suspended(cron_job: Object) -> bool:
    return bool(cron_job["spec"].get("suspend"))


def _annotations(item: Object) -> dict[str, str]:
    return item["metadata"].get("annotations") or {}


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _time(text: object) -> datetime | None:
    return parse(str(text)) if text else None
