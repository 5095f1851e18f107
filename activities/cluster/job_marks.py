"""Marks Jobs whose end has been dealt with, and sets their time to live once the run's outcome has been recorded, never
before: the Job controller must not delete a Job whose result nobody has read. Marked Jobs are no longer watched.
"""

from contextlib import suppress
from dataclasses import dataclass

from activities.rules.manifests import ANNOTATION_SECONDS_LEFT
from activities.rules.object_metadata import is_owned_by, name_of, uid_of
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, Invalid, NotFound
from inferrun.kube.objects import JOBS, Object
from inferrun.run_ref import RunRef


@dataclass(frozen=True)
class JobsOfRun:
    """The Jobs of a run. If it had one launch only, that Job is known and need not be looked for."""

    run: RunRef
    only_name: str = ""
    only_uid: str = ""


async def set_time_to_live(api: KubeClient, jobs: JobsOfRun, *, seconds: int) -> None:
    """Set ttlSecondsAfterFinished of all Jobs that the run owns."""
    run = jobs.run
    found = [(jobs.only_name, jobs.only_uid)] if jobs.only_name and jobs.only_uid else await _list_jobs(api, run)
    for name, uid in found:
        body = {
            "metadata": {"uid": uid, "labels": {wellknown.LABEL_ENDED: "true"}},
            "spec": {"ttlSecondsAfterFinished": seconds},
        }
        await _patch(api, run.namespace, name, body)


async def _list_jobs(api: KubeClient, run: RunRef) -> list[tuple[str, str]]:
    """Name and UID of each Job that the run owns."""
    found = await api.list(JOBS, run.namespace, labelSelector=f"{wellknown.LABEL_RUN_UID}={run.uid}")
    return [(name_of(job), uid_of(job)) for job in found.get("items") or [] if is_owned_by(job, run)]


async def mark_ended(api: KubeClient, run: RunRef, job: str) -> None:
    """Mark one Job of the run; its run goes on with another launch."""
    owned = {"metadata": {"labels": {wellknown.LABEL_ENDED: "true"}}}
    await _patch(api, run.namespace, job, owned)


async def mark_limited(api: KubeClient, job: Object, *, seconds_left: int) -> None:
    """Mark a Job that was created before its run got a time limit: the observer signals starts only if there is one."""
    metadata = job["metadata"]
    if ANNOTATION_SECONDS_LEFT in (metadata.get("annotations") or {}):
        return
    body = {"metadata": {"uid": uid_of(job), "annotations": {ANNOTATION_SECONDS_LEFT: str(seconds_left)}}}
    await _patch(api, metadata["namespace"], name_of(job), body)


async def _patch(api: KubeClient, namespace: str, name: str, body: Object) -> None:
    with suppress(NotFound, Conflict, Invalid):  # gone, or another Job has its name: another UID is rejected as invalid
        await api.patch(JOBS, namespace, name, body)
