"""`PublishStatus` on a real API server."""

from datetime import timedelta

from temporalio.testing import ActivityEnvironment

from activities.publish_status import StatusPublisher
from control.cluster.events import EventRecorder
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.timestamps import utc_now
from tests.integration.control.pods import Launched
from workflows.messages import PublishInput, StatusResult


async def test_a_status_is_published_but_never_over_an_outcome(
    api: KubeClient, job: Launched
) -> None:
    publisher = StatusPublisher(api, RunStore(api), events=EventRecorder(api, reporter="tests"))
    request = PublishInput(
        run=job.run.ref,
        phase=Phase.PENDING,
        reason=Reason.RETRY_BACKOFF,
        message="attempt 2 of 3 starts in 10 s",
        attempt=2,
        uncounted=1,
        committed=300,
        warning=True,
    )
    await ActivityEnvironment().run(publisher.publish_status, request)
    status = (await job.now()).status
    assert (status.reason, status.message, status.attempt) == ("RetryBackoff", request.message, 2)
    assert (status.uncounted_attempts, status.committed_records) == (1, 300)
    assert ("RetryBackoff", "Warning") in await job.events()
    outcome = {"status": {"phase": "Failed", "reason": "InputFailed", "message": "exit code 3"}}
    await api.patch(RUNS, job.namespace, job.run.metadata.name, outcome, sub="status")
    ended = await job.now()
    answer: StatusResult = await ActivityEnvironment().run(publisher.publish_status, request)
    assert answer.phase is Phase.FAILED
    assert await job.now() == ended


async def test_the_start_of_a_container_that_ended_before_anybody_saw_it_run_is_shown(
    api: KubeClient, job: Launched
) -> None:
    publisher = StatusPublisher(api, RunStore(api), events=EventRecorder(api, reporter="tests"))
    start = utc_now().replace(microsecond=0)
    ended = Attempt(
        launch=1, attempt=1, job_name=job.result.job_name, start_time=start, completion_time=start
    )
    request = PublishInput(
        run=job.run.ref,
        phase=Phase.PENDING,
        reason=Reason.RETRY_BACKOFF,
        message="m",
        attempt=2,
        attempts=(ended,),
    )
    await ActivityEnvironment().run(publisher.publish_status, request)
    assert (await job.now()).status.start_time == start
    later = ended.model_copy(
        update={"launch": 2, "attempt": 2, "start_time": start + timedelta(seconds=9)}
    )
    await ActivityEnvironment().run(
        publisher.publish_status, request.model_copy(update={"attempts": (later,)})
    )
    assert (await job.now()).status.start_time == start
