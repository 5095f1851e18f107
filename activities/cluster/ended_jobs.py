"""Makes room in a quota on Jobs: those of a run that have ended are kept for their logs, but not at the price of the next one.

Their time to live begins with the end of the run, so a run that waited for them to disappear would wait for itself.
"""

from activities.cluster.deletion import delete_if_present
from activities.cluster.job_marks import MAX_JOBS
from activities.cluster.job_objects import list_jobs
from activities.rules import job_state
from activities.rules.object_metadata import name_of, uid_of
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import JOBS
from inferrun.run_ref import RunRef


async def make_room(api: KubeClient, run: RunRef, error: KubeError) -> bool:
    """If a quota on Jobs is the reason for a rejection, delete the run's Jobs whose ends have been dealt with.

    Returns whether there were any: the quota has room for another one in a moment.
    """
    if "exceeded quota" not in str(error) or "count/jobs.batch" not in str(error):
        return False
    marked = list_jobs(api, run, label=wellknown.LABEL_ENDED)
    ended = [(name_of(job), uid_of(job)) async for job in marked if job_state.is_finished(job)]
    for name, uid in ended[:MAX_JOBS]:
        await delete_if_present(api, JOBS, run.namespace, name, uid=uid)
    return bool(ended)
