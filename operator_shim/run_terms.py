"""The terms under which the shim finds runs in its cache: no event may cost more because many runs have finished. Pure."""

from collections.abc import Hashable, Iterator
from typing import Final

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason

UNFINISHED: Final = "unfinished"
"""Runs and schedules that have not ended."""

TO_DELETE: Final = "to delete"
"""Finished runs that are deleted at a time that their status names."""


def created_by(namespace: str, uid: str) -> Hashable:
    """The term of the runs that the schedule with this UID created; without those of back-fills, which may be thousands."""
    return "created by", namespace, uid


def unfinished_with(namespace: str, name: str) -> Hashable:
    """The term of the runs that refer to the config of that name and have not ended."""
    return "unfinished with", namespace, name


def reading(namespace: str, name: str) -> Hashable:
    """The term of the runs that wait for the run of that name, because its output is their input."""
    return "reading", namespace, name


def awaited_run(run: Object) -> str | None:
    """The name of the run that a run waits for; None if it waits for nothing of that kind."""
    status = run.get("status") or {}
    is_waiting = status.get("phase") == Phase.PENDING and status.get("reason") == Reason.WAITING_FOR_RUN
    name: str | None = (status.get("inputRun") or {}).get("name")
    return name if is_waiting else None


def sees_change(run: Object, awaited: Object | None) -> bool:
    """Whether the run that this one waits for, None if it does not exist, differs in UID or phase from this run's status."""
    seen, status = run["status"]["inputRun"], (awaited or {}).get("status") or {}
    uid = awaited["metadata"]["uid"] if awaited is not None else None
    return (seen.get("uid"), seen.get("phase")) != (uid, status.get("phase"))


def terms_of(run: Object) -> Iterator[Hashable]:
    """All terms of a run."""
    metadata, spec, status = run["metadata"], run["spec"], run.get("status") or {}
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("kind") == wellknown.RUN_KIND and not is_backfilled(run):
            yield created_by(metadata["namespace"], owner.get("uid"))
    if has_ended(run):
        if status.get("deleteAfter"):
            yield TO_DELETE
        return
    yield UNFINISHED
    if (name := awaited_run(run)) is not None:
        yield reading(metadata["namespace"], name)
    if spec.get("schedule") is None and spec.get("backfill") is None:
        reference = spec.get("configRef") or {}
        yield unfinished_with(reference.get("namespace") or metadata["namespace"], reference.get("name", ""))


def is_backfilled(run: Object) -> bool:
    """Whether a back-fill created this run of a schedule."""
    return wellknown.LABEL_BACKFILL in (run["metadata"].get("labels") or {})


def has_ended(run: Object) -> bool:
    """Whether the run's status is terminal."""
    return (run.get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)
