"""What is done with the Job of a run that has ended."""

import pytest

from control.launches.observation import Launch
from inferrun import wellknown
from inferrun.run_defaults import Defaults
from operator_shim.observer.cluster_jobs import ClusterJobs
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import JOB_NAME, JOB_UID, live_job, live_run


def labelled(api: StoredObjects) -> list[str]:
    """The installations whose labels Jobs got."""
    return [body["metadata"]["labels"][wellknown.LABEL_INSTALLATION] for body in api.patched]


@pytest.mark.parametrize(
    ("phase", "job_uid", "is_kept"),
    [
        ("Succeeded", JOB_UID, True),
        ("Succeeded", "another", False),
        ("Failed", JOB_UID, False),
    ],
)
async def test_only_the_job_of_a_success_finishes_by_itself(
    *, phase: str, job_uid: str, is_kept: bool
) -> None:
    job = live_job()
    api = StoredObjects(jobs=job, inferenceruns=live_run(phase=phase, job_uid=job_uid))
    launch = Launch.of_job(job)
    assert launch is not None
    await ClusterJobs(api, installation="tests", defaults=Defaults).withdraw(launch)
    assert [name for _, name, _ in api.deleted] == ([] if is_kept else [JOB_NAME])


async def test_labels_that_users_remove_are_restored_each_time() -> None:
    job = live_job()
    api = StoredObjects(jobs=job)
    jobs = ClusterJobs(api, installation="own.here", defaults=Defaults)
    launch = Launch.of_job(job)
    assert launch is not None
    for _ in range(3):
        job["metadata"]["labels"].pop(wellknown.LABEL_INSTALLATION, None)
        assert await jobs.find(launch) is job
    assert labelled(api) == ["own.here"] * 3


@pytest.mark.parametrize(
    ("condition", "uid"),
    [("Complete", JOB_UID), (None, "another")],
    ids=["finished", "another Job of that name"],
)
async def test_only_the_launchs_job_is_watched_again_and_only_while_it_goes_on(
    condition: str | None, uid: str
) -> None:
    launch = Launch.of_job(live_job())
    assert launch is not None
    job = live_job(condition=condition)
    job["metadata"]["uid"] = uid
    job["metadata"]["labels"].pop(wellknown.LABEL_INSTALLATION, None)
    api = StoredObjects(jobs=job)
    assert await ClusterJobs(api, installation="own.here", defaults=Defaults).find(launch) is job
    assert labelled(api) == []
