"""Makes room in a quota on Jobs: those of a run that have ended are kept for their logs, but not at the price of the next one.

Their time to live begins with the end of the run, so a run that waited for them to disappear would wait for itself.
"""

from activities.cluster.deletion import delete_if_present
from activities.cluster.job_marks import JOBS_PAGE, MAX_JOBS
from activities.rules import job_state
from activities.rules.object_metadata import is_owned_by, name_of, uid_of
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
    selector = f"{wellknown.LABEL_RUN_UID}={run.uid},{wellknown.LABEL_ENDED}"
    listed = api.items(JOBS, run.namespace, page_size=JOBS_PAGE, labelSelector=selector)
    ended = [
        (name_of(job), uid_of(job)) async for job in listed if is_owned_by(job, run) and job_state.is_finished(job)
    ]
    for name, uid in ended[:MAX_JOBS]:
        await delete_if_present(api, JOBS, run.namespace, name, uid=uid)
    return bool(ended)
