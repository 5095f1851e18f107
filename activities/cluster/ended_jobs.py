"""Makes room in a quota on Jobs or on Pods that counts those that have ended: a run's are kept for their logs, but not at the price
of the next one.

Their time to live begins with the end of the run, so a run that waited for them to disappear would wait for itself.
"""

from activities.cluster.deletion import delete_if_present
from activities.cluster.job_marks import MAX_JOBS
from activities.cluster.job_objects import list_events, list_jobs
from activities.rules import job_state
from activities.rules.diagnosis import counts_ended_objects, diagnose_missing_pod
from activities.rules.object_metadata import name_of, uid_of
from activities.rules.observation import Launch
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, Object
from inferrun.run_ref import RunRef


async def make_room(api: KubeClient, run: RunRef, rejection: object) -> bool:
    """If such a quota is the reason for a rejection, delete the run's Jobs whose ends have been dealt with, and so their Pods.

    Returns whether there were any: the quota has room for another one in a moment.
    """
    if not counts_ended_objects(str(rejection)):
        return False
    marked = list_jobs(api, run, label=wellknown.LABEL_ENDED)
    ended = [(name_of(job), uid_of(job)) async for job in marked if job_state.is_finished(job)]
    for name, uid in ended[:MAX_JOBS]:
        await delete_if_present(api, JOBS, run.namespace, name, uid=uid)
    return bool(ended)


async def make_room_for_pod(api: KubeClient, run: RunRef, job: Object) -> None:
    """The same for a Job that has no Pod: its rejection is known from the Job's Events only."""
    launch = Launch.of_job(job)
    if launch is not None and launch.follows_another:
        events = await list_events(api, run.namespace, job)
        await make_room(api, run, diagnose_missing_pod(job, events, namespace=run.namespace).message)
