"""Makes room in a quota that counts ended Jobs or Pods: they are kept for their logs, but must not block the next run.

The Jobs of a run in progress have no time to live, and those of finished runs are kept for a day. Without this, a run would wait
for its own Jobs forever, or for those of other runs for a day.
"""

from activities.judging.job_marks import MAX_JOBS
from activities.objects.deletion import delete_if_present
from activities.objects.object_metadata import name_of, uid_of
from activities.watching import job_state
from activities.watching.diagnosis import counts_ended_objects, diagnose_missing_pod
from activities.watching.job_objects import JOBS_PAGE, list_events, list_jobs
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, Object
from inferrun.run_ref import RunRef


async def make_room(api: KubeClient, run: RunRef, rejection: object, *, installation: str) -> bool:
    """If such a quota is the reason for a rejection, delete Jobs whose ends have been dealt with, and so their Pods: those of the
    run, or else the oldest one of the installation in the namespace.

    Returns whether there were any: the quota has room for another one in a moment.
    """
    if not counts_ended_objects(str(rejection)):
        return False
    marked = list_jobs(api, run, label=wellknown.LABEL_ENDED)
    ended = [(name_of(job), uid_of(job)) async for job in marked if job_state.is_finished(job)][:MAX_JOBS]
    ended = ended or await _oldest(api, run.namespace, installation=installation)
    for name, uid in ended:
        await delete_if_present(api, JOBS, run.namespace, name, uid=uid)
    return bool(ended)


async def _oldest(api: KubeClient, namespace: str, *, installation: str) -> list[tuple[str, str]]:
    """Name and UID of the Job that was created first; empty if there is none."""
    selector = f"{wellknown.LABEL_ENDED},{wellknown.LABEL_INSTALLATION}={installation}"
    listed = api.items(JOBS, namespace, page_size=JOBS_PAGE, labelSelector=selector)
    ended = [
        (str(job["metadata"]["creationTimestamp"]), name_of(job), uid_of(job))
        async for job in listed
        if job_state.is_finished(job)
    ]
    return [min(ended)[1:]] if ended else []


async def make_room_for_pod(api: KubeClient, run: RunRef, job: Object, *, installation: str) -> None:
    """The same for a Job that has no Pod: its rejection is known from the Job's Events only."""
    events = await list_events(api, run.namespace, job)
    rejection = diagnose_missing_pod(job, events).message
    await make_room(api, run, rejection, installation=installation)
