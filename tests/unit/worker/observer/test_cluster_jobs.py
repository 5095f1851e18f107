"""What is done with the Job of a run that has ended."""

import pytest

from activities.rules.observation import Launch
from inferrun.control.run_defaults import Defaults
from inferrun.kube.objects import Object, Resource
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import JOB_NAME, JOB_UID, live_job, live_run
from worker.observer.cluster_jobs import ClusterJobs


class Deletions(StoredObjects):
    """Notes what is deleted."""

    def __init__(self, **objects: Object) -> None:
        super().__init__(**objects)
        self.deleted: list[str] = []

    async def delete(
        self,
        resource: Resource,  # noqa: ARG002
        namespace: str,  # noqa: ARG002
        name: str,
        *,
        uid: str,  # noqa: ARG002
        grace: int | None = None,  # noqa: ARG002
    ) -> None:
        self.deleted.append(name)


@pytest.mark.parametrize(
    ("phase", "job_uid", "is_kept"),
    [
        ("Succeeded", JOB_UID, True),
        ("Succeeded", "another", False),
        ("Failed", JOB_UID, False),
    ],
)
async def test_only_the_job_of_a_success_finishes_by_itself(*, phase: str, job_uid: str, is_kept: bool) -> None:
    job = live_job()
    api = Deletions(jobs=job, inferenceruns=live_run(phase=phase, job_uid=job_uid))
    launch = Launch.of_job(job)
    assert launch is not None
    await ClusterJobs(api, installation="tests", defaults=Defaults).withdraw(launch)
    assert api.deleted == ([] if is_kept else [JOB_NAME])
