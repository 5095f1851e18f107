"""Starts Jobs that the status of their run names, and marks those whose end has been dealt with.

Their time to live is set once the run's outcome has been recorded, never before: the Job controller
must not delete a Job whose result nobody has read. Marked Jobs are no longer watched. They are kept
for their logs, but must not block the next run in a quota that counts ended Jobs or Pods: a run
would wait for its own Jobs forever, or for those of other runs for a day.
"""

from control.cluster.job_objects import JOBS_PAGE, list_events, list_jobs
from control.launches import job_state
from control.launches.diagnosis import counts_ended_objects, diagnose_missing_pod
from control.launches.observation import Launch
from control.survival import trying_each
from control.temporal_calls import is_of_same_cluster
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, Invalid, NotFound
from inferrun.kube.objects import JOBS, Object, name_of, spec_of, uid_of
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT, HELD, NOT_STARTED, labels_of
from inferrun.run_ref import RunRef

_ENDED = {"labels": {wellknown.LABEL_ENDED: "true"}}

MAX_JOBS = 256
"""Jobs of a run that are marked; it has fewer, but users may create others that name it as their
owner."""


async def set_time_to_live(
    api: KubeClient, run: RunRef, *, seconds: int, only_job: tuple[str, str] | None = None
) -> None:
    """Set ttlSecondsAfterFinished of all Jobs that the run owns; `only_job` are name and UID, if it
    had one launch only."""
    jobs = (
        [only_job]
        if only_job is not None
        else [(name_of(job), uid_of(job)) async for job in list_jobs(api, run)]
    )
    with trying_each() as one:
        for name, uid in jobs[:MAX_JOBS]:
            with one():
                await end_job(api, run, name, uid=uid, seconds=seconds)


async def start_job(api: KubeClient, job: Object) -> None:
    """Let the Job create its Pods, or queue for it, if it has not been started; one that is gone,
    or was replaced, is left alone.
    """
    spec = spec_of(job)
    if spec.get("parallelism") != NOT_STARTED:
        return
    metadata: Object = {"uid": uid_of(job)}
    if spec.get("suspend"):  # Kueue ignores other Jobs, and rejects a change of the label
        metadata["labels"] = dict.fromkeys(HELD)
    started = {"parallelism": job_state.shards_of(job)}
    body = {"metadata": metadata, "spec": started}
    await _patch(api, job["metadata"]["namespace"], name_of(job), body, must_be_admitted=True)


async def mark_stopped(api: KubeClient, job: Object) -> None:
    """Mark a Job that is kept only to count how its Pod ends, which is being deleted. It creates no
    other one: with `parallelism: 0`, or suspended, it would not count the Pod either.
    """
    body = {"metadata": {"uid": uid_of(job), "annotations": {wellknown.ANNOTATION_STOPPED: "true"}}}
    await _patch(api, job["metadata"]["namespace"], name_of(job), body)


async def end_job(api: KubeClient, run: RunRef, name: str, *, uid: str, seconds: int) -> None:
    """Mark one Job and set its ttlSecondsAfterFinished."""
    body = {"metadata": {"uid": uid, **_ENDED}, "spec": {"ttlSecondsAfterFinished": seconds}}
    await _patch(api, run.namespace, name, body)


async def mark_ended(api: KubeClient, run: RunRef, job: str) -> None:
    """Mark one Job of the run; the run continues with another launch."""
    await _patch(api, run.namespace, job, {"metadata": _ENDED})


async def watch_again(api: KubeClient, launch: Launch, job: Object, *, installation: str) -> None:
    """Restore the labels and the annotation by which the observer finds a Job that has not ended,
    if any was changed."""
    metadata = job["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    creator = str(labels.get(wellknown.LABEL_INSTALLATION) or "")
    is_known = is_of_same_cluster(creator, installation=installation)
    wanted = labels_of(launch.run, installation=creator if is_known else installation)
    is_named = annotations.get(wellknown.ANNOTATION_RUN) == launch.run.name
    if is_named and wellknown.LABEL_ENDED not in labels and wanted.items() <= labels.items():
        return
    body = {
        "metadata": {
            "uid": uid_of(job),
            "labels": {**wanted, wellknown.LABEL_ENDED: None},
            "annotations": {wellknown.ANNOTATION_RUN: launch.run.name},
        }
    }
    await _patch(api, launch.run.namespace, name_of(job), body)


async def mark_limited(api: KubeClient, job: Object, *, seconds_left: int) -> None:
    """Mark a Job that was created before its run got a time limit: the observer signals starts only
    if there is one."""
    metadata = job["metadata"]
    if ANNOTATION_SECONDS_LEFT in (metadata.get("annotations") or {}):
        return
    body = {
        "metadata": {
            "uid": uid_of(job),
            "annotations": {ANNOTATION_SECONDS_LEFT: str(seconds_left)},
        }
    }
    await _patch(api, metadata["namespace"], name_of(job), body)


async def _patch(
    api: KubeClient, namespace: str, name: str, body: Object, *, must_be_admitted: bool = False
) -> None:
    """A conflict is raised: the condition is the UID alone, so the same patch succeeds once the
    server is less busy.

    So is a refusal of what `must_be_admitted`; the end of a run waits for no mark that a policy
    denies.
    """
    try:
        await api.patch(JOBS, namespace, name, body)
    except NotFound:
        return
    except Invalid as error:  # another Job has its name: another UID is rejected as invalid
        if must_be_admitted and "metadata.uid" not in str(error):
            raise
    except Forbidden:
        if must_be_admitted:
            raise


async def make_room(
    api: KubeClient, run: RunRef, rejection: object, *, launch: int, installation: str
) -> bool:
    """If such a quota is the reason for a rejection, delete Jobs whose ends have been dealt with,
    and so their Pods: those of the run, of launches before this one if they lack the mark, or else
    the oldest one of the installation in the namespace.

    Returns whether there were any: the quota has room for another one in a moment.
    """
    if not counts_ended_objects(str(rejection)):
        return False
    own = [job async for job in list_jobs(api, run) if job_state.is_finished(job)]
    ended = [(name_of(job), uid_of(job)) for job in own if _is_dealt_with(job, launch=launch)][
        :MAX_JOBS
    ]
    if not ended:
        selector = f"{wellknown.LABEL_ENDED},{wellknown.LABEL_INSTALLATION}={installation}"
        listed = api.items(JOBS, run.namespace, page_size=JOBS_PAGE, labelSelector=selector)
        dated = [
            (str(job["metadata"]["creationTimestamp"]), name_of(job), uid_of(job))
            async for job in listed
            if job_state.is_finished(job)
        ]
        ended = [min(dated)[1:]] if dated else []
    try:
        for name, uid in ended:
            await api.delete_if_present(JOBS, run.namespace, name, uid=uid)
    except Forbidden:  # a policy keeps them: the run waits for the quota
        return False
    return bool(ended)


def _is_dealt_with(job: Object, *, launch: int) -> bool:
    """Whoever began this launch had dealt with those before it, and may have died before it marked
    their Jobs."""
    is_marked = wellknown.LABEL_ENDED in (job["metadata"].get("labels") or {})
    return is_marked or 0 < _launch_of(job) < launch


def _launch_of(job: Object) -> int:
    """The launch of a Job, by its label; 0 without a valid one."""
    number = str((job["metadata"].get("labels") or {}).get(wellknown.LABEL_LAUNCH) or "")
    return int(number) if number.isdecimal() else 0


async def make_room_for_pod(
    api: KubeClient, run: RunRef, job: Object, *, installation: str
) -> None:
    """Make room for the Pod of a Job that has none: its rejection is known from the Job's Events
    only."""
    events = await list_events(api, run.namespace, job)
    rejection = diagnose_missing_pod(job, events).message
    await make_room(api, run, rejection, launch=_launch_of(job), installation=installation)
