"""Sets the time to live of a run's Jobs. It starts when the outcome has been recorded, never before: the Job controller
must not delete a Job whose result nobody has read.
"""

from activities.rules.object_metadata import is_owned_by, name_of, uid_of
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, Invalid, NotFound
from inferrun.kube.objects import JOBS
from inferrun.run_ref import RunRef


async def set_time_to_live(api: KubeClient, run: RunRef, *, seconds: int) -> None:
    """Set ttlSecondsAfterFinished of all Jobs that the run owns."""
    found = await api.list(JOBS, run.namespace, labelSelector=f"{wellknown.LABEL_RUN_UID}={run.uid}")
    for job in found.get("items") or []:
        if not is_owned_by(job, run):
            continue
        body = {"metadata": {"uid": uid_of(job)}, "spec": {"ttlSecondsAfterFinished": seconds}}
        try:
            await api.patch(JOBS, run.namespace, name_of(job), body)
        except (NotFound, Conflict, Invalid):
            continue  # the Job is gone, or another one has its name: a patch with another UID is rejected as invalid
