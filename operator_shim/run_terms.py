"""What the object of a run says: whether it has ended, what it waits for, and the terms by which
the watch finds it. Pure.

The terms are the one index of what runs wait for, so that no event costs more because many runs
have finished. A run that waits holds nothing else: its status says what its last launch saw, and
whoever sees something else has it look again (`operator_shim.run_loop`). Runs that wait for room in
their namespace have no workflow that could say so: the loop remembers them.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason

UNFINISHED: Final = "unfinished"
"""Runs and schedules that have not ended."""

TO_DELETE: Final = "to delete"
"""Finished runs that are deleted at a time that their status names."""


def created_by(namespace: str, uid: str) -> Hashable:
    """The term of the runs that the schedule with this UID created; without those of back-fills,
    which may be thousands.
    """
    return "created by", namespace, uid


def unfinished_with(namespace: str, name: str) -> Hashable:
    """The term of the runs that refer to the config of that name and have not ended."""
    return "unfinished with", namespace, name


def terms_of(run: Object) -> Iterator[Hashable]:
    """Under what the run is found; what it waits for is among that, as its status says it."""
    namespace, spec, status = run["metadata"]["namespace"], run["spec"], status_of(run)
    for owner in run["metadata"].get("ownerReferences") or []:
        if owner.get("kind") == wellknown.RUN_KIND and not is_backfilled(run):
            yield created_by(namespace, owner.get("uid"))
    if has_ended(run):
        if status.get("deleteAfter"):
            yield TO_DELETE
        return
    yield UNFINISHED
    if not is_schedule(run) and spec.get("backfill") is None:
        reference = spec.get("configRef") or {}
        config = reference.get("namespace") or namespace, reference.get("name", "")
        yield unfinished_with(*config)
        # its change may unblock the run
        if status.get("phase") == Phase.PENDING and not status.get("contract"):
            yield Awaited(wellknown.CONFIG_KIND, *config)
    if (name := awaited_run(run)) is not None:
        yield Awaited(wellknown.RUN_KIND, namespace, name)
    if (model := awaited_model(run)) is not None:
        yield model
        yield A_MODEL
    if status.get("reason") == Reason.QUOTA_EXCEEDED:
        yield quota(namespace)


def is_schedule(run: Object) -> bool:
    """Whether it is a schedule, which is not executed itself."""
    return run["spec"].get("schedule") is not None


def is_backfilled(run: Object) -> bool:
    """Whether a back-fill created this run of a schedule."""
    return wellknown.LABEL_BACKFILL in (run["metadata"].get("labels") or {})


def starters_of(run: Object, *, is_done: bool) -> list[str]:
    """The names of the runs that created this one and whose statuses follow from it: its schedule,
    or the back-fill, which follows its end alone. Nothing in the status of a schedule depends on a
    run of a back-fill.
    """
    if is_backfilled(run):
        name = annotations_of(run).get(wellknown.ANNOTATION_BACKFILL, "")
        return [name] if is_done else []
    owners = run["metadata"].get("ownerReferences") or []
    return [owner["name"] for owner in owners if owner.get("kind") == wellknown.RUN_KIND]


def has_ended(run: Object) -> bool:
    return status_of(run).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)


A_MODEL: Final = "a model"
"""The term of all runs that wait for a model."""


class Awaited(NamedTuple):
    """An object that runs wait for; of quotas, all those of a namespace."""

    kind: str
    namespace: str
    name: str


def quota(namespace: str) -> Awaited:
    """Room in the quotas of the namespace."""
    return Awaited("ResourceQuota", namespace, "")


def may_have_missed(run: Object) -> bool:
    """Whether a run that was accepted earlier may have missed what it waits for while no shim was
    watching: a change of its config or of another run or, as a back-fill, the end of one of its
    runs.
    """
    status = status_of(run)
    is_waiting = status.get("phase") == Phase.PENDING and status.get("reason") != Reason.ACCEPTED
    return (is_waiting and not status.get("contract")) or run["spec"].get("backfill") is not None


def awaited_run(run: Object) -> str | None:
    """The name of the run that a run waits for; None if it waits for nothing of that kind."""
    status = status_of(run)
    is_waiting = (
        status.get("phase") == Phase.PENDING and status.get("reason") == Reason.WAITING_FOR_RUN
    )
    name: str | None = (status.get("inputRun") or {}).get("name")
    return name if is_waiting else None


def sees_change(run: Object, get: Callable[[str, str], Object | None]) -> bool:
    """Whether the run that this one waits for, if any, differs in UID or phase from this run's
    status. `get` finds a run by its namespace and name.
    """
    if (name := awaited_run(run)) is None:
        return False
    seen = run["status"]["inputRun"]
    now = get(run["metadata"]["namespace"], name) or {"metadata": {}}
    return (seen.get("uid"), seen.get("phase")) != (
        now["metadata"].get("uid"),
        status_of(now).get("phase"),
    )


def awaited_model(run: Object) -> Awaited | None:
    """The object of KServe whose state the run waits for before its Job is created; None if it
    waits for nothing of that kind.
    """
    status = status_of(run)
    model = status.get("model") or {}
    is_blocked = status.get("reason") in (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
    is_waiting = is_blocked and status.get("phase") == Phase.PENDING
    if not is_waiting or not all(model.get(part) for part in Awaited._fields):
        return None
    base = job_base_name(run["metadata"]["name"], run["metadata"]["uid"])
    if (status.get("jobStatus") or {}).get("name") == job_name(
        base, (status.get("endedLaunches") or 0) + 1
    ):
        # the launch has a Job already, whose Pod waits for the model itself; an earlier launch may
        # have had one
        return None
    return Awaited(model["kind"], model["namespace"], model["name"])
