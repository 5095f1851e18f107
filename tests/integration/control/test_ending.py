"""The end of a run on a real API server: what is stopped, what is stored, what follows."""

import asyncio

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.cluster.publisher import Publisher
from activities.ending import POLL_SECONDS, Ender
from activities.launching import Installation, Launcher
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, PODS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.runner_report import RecordCounts
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.control.conftest import MakeConfig, MakeRun
from tests.integration.control.pods import NOWHERE, STARTED, WAIT_SECONDS, Launched, launched
from tests.integration.control.proxy import Proxy
from workflows.messages import (
    AttemptRecord,
    DeleteRunInput,
    PublishInput,
    RecordInput,
    RecordResult,
    StopResult,
    VerdictKind,
)

INSTALLATION = Installation(id="tests.of-ending", runner_account="", temporal_namespace="default", ui_url="http://ui")


class Pruned:
    """Notes which schedules' runs were to be pruned."""

    def __init__(self) -> None:
        self.schedules: list[RunRef] = []

    async def __call__(self, schedule: RunRef) -> None:
        self.schedules.append(schedule)


@pytest.fixture
def pruned() -> Pruned:
    """The schedules whose runs were to be pruned."""
    return Pruned()


@pytest.fixture
async def ender(api: KubeClient, pruned: Pruned) -> Ender:
    """The activities' instance; its Temporal client never gets as far as a connection."""
    client = await Client.connect("127.0.0.1:1", lazy=True, plugins=[inferrun_plugin()])
    runs = RunStore(api)
    return Ender(
        api,
        runs,
        publisher=Publisher(api, runs, reporter="tests"),
        client=client,
        task_queue="tests",
        installation=INSTALLATION.id,
        ui_url="http://ui",
        prune=pruned,
    )


@pytest.fixture
async def job(api: KubeClient, make_run: MakeRun, make_config: MakeConfig) -> Launched:
    """A run of a foreign image whose Job exists, and its Pod."""
    launcher = Launcher(api, RunStore(api), installation=INSTALLATION, defaults=Defaults)
    config = await make_config(resources=NOWHERE, ttlSecondsAfterFinished=777)
    made = await launched(api, launcher, await make_run(configRef={"name": config}))
    await made.pod()
    return made


async def stop(ender: Ender, job: Launched, *, grace: int) -> StopResult:
    running = ActivityEnvironment().run(ender.stop_job, job.stop_input(grace=grace))
    result: StopResult = await asyncio.wait_for(running, WAIT_SECONDS)
    return result


async def record(ender: Ender, job: Launched, **changes: object) -> RecordResult:
    request = RecordInput.model_validate(
        {
            "run": job.run.ref,
            "phase": Phase.FAILED,
            "reason": Reason.INPUT_FAILED,
            "message": "exit code 3",
            "exit_code": 3,
            "job_name": job.result.job_name,
            "job_uid": job.result.job_uid,
            **changes,
        }
    )
    result: RecordResult = await ActivityEnvironment().run(ender.record_outcome, request)
    return result


@pytest.mark.parametrize("grace", [5, 10])
async def test_a_stop_deletes_the_pod_first_with_its_own_grace_then_the_job(
    ender: Ender, job: Launched, proxy: Proxy, grace: int
) -> None:
    pod = await job.pod()
    await stop(ender, job, grace=grace)
    first, second = proxy.sent("DELETE")
    assert first.path.endswith(f"/pods/{pod['metadata']['name']}")
    assert first.body is not None
    assert first.body["gracePeriodSeconds"] == grace
    assert first.body["preconditions"] == {"uid": pod["metadata"]["uid"]}
    assert first.body["propagationPolicy"] == "Background"
    assert second.path.endswith(f"/jobs/{job.result.job_name}")
    assert second.body is not None
    assert second.body["preconditions"] == {"uid": job.result.job_uid}
    assert second.body["propagationPolicy"] == "Background"
    assert "gracePeriodSeconds" not in second.body


async def test_after_a_stop_neither_job_nor_pod_is_left(ender: Ender, job: Launched, api: KubeClient) -> None:
    await stop(ender, job, grace=5)
    with pytest.raises(NotFound):
        await job.job()
    selector = f"batch.kubernetes.io/controller-uid={job.result.job_uid}"
    assert (await api.list(PODS, job.namespace, labelSelector=selector))["items"] == []


async def test_a_stop_says_what_the_run_was_waiting_for(ender: Ender, job: Launched) -> None:
    await job.tell({"waiting": {"reason": "ImagePullBackOff", "message": "no route to host"}}, phase="Pending")
    result = await stop(ender, job, grace=10)
    assert result.verdict is None
    assert "cannot be pulled" in result.last_wait_message
    assert "no route to host" in result.last_wait_message


async def test_a_stop_keeps_what_the_job_had_achieved(ender: Ender, job: Launched) -> None:
    await job.ends(0, message="all done")
    await job.is_finished()
    result = await stop(ender, job, grace=5)
    assert result.verdict is not None
    assert (result.verdict.kind, result.verdict.message) == (VerdictKind.SUCCEEDED, "all done")


async def test_what_is_only_to_be_stopped_while_it_waits_goes_on_once_its_container_runs(
    ender: Ender, job: Launched, proxy: Proxy
) -> None:
    await job.runs()
    request = job.stop_input(grace=10).model_copy(update={"only_if_waiting": True})
    result: StopResult = await ActivityEnvironment().run(ender.stop_job, request)
    assert (result.started_at, result.pod_name) == (STARTED, (await job.pod())["metadata"]["name"])
    assert not proxy.sent("DELETE")


async def test_what_is_only_to_be_stopped_while_it_waits_is_stopped_while_it_waits(
    ender: Ender, job: Launched, proxy: Proxy
) -> None:
    request = job.stop_input(grace=10).model_copy(update={"only_if_waiting": True})
    result: StopResult = await ActivityEnvironment().run(ender.stop_job, request)
    assert result.started_at is None
    assert len(proxy.sent("DELETE")) == 2


async def test_a_container_that_does_its_work_while_it_is_stopped_has_succeeded(
    ender: Ender, job: Launched, api: KubeClient
) -> None:
    """As on a node: the Pod is there until its grace is over, here until a finalizer goes."""
    pod = await job.pod()
    place = (PODS, job.namespace, pod["metadata"]["name"])
    held = {"metadata": {"finalizers": [*pod["metadata"].get("finalizers", []), "inferrun.test/held"]}}
    await job.runs()
    await api.patch(*place, held)
    stopping = asyncio.create_task(stop(ender, job, grace=5))
    await job.is_being_stopped()
    assert not stopping.done()
    await job.ends(0, message="all done")
    result = await _let_go(api, job, stopping)
    assert result.verdict is not None
    assert (result.verdict.kind, result.verdict.message) == (VerdictKind.SUCCEEDED, "all done")


async def _let_go(api: KubeClient, job: Launched, stopping: "asyncio.Task[StopResult]") -> StopResult:
    """Take the finalizer off once the stop has looked at the Pod again."""
    await asyncio.wait([stopping], timeout=2 * POLL_SECONDS)
    pod = await job.pod()
    await api.patch(PODS, job.namespace, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    return await asyncio.wait_for(stopping, WAIT_SECONDS)


async def test_a_stop_of_what_is_gone_already_is_done(ender: Ender, job: Launched) -> None:
    await stop(ender, job, grace=5)
    assert await stop(ender, job, grace=5) == StopResult()


async def test_a_stop_leaves_another_job_of_that_name_alone(ender: Ender, job: Launched, api: KubeClient) -> None:
    request = job.stop_input(grace=5).model_copy(update={"job_uid": "00000000-0000-0000-0000-000000000000"})
    await ActivityEnvironment().run(ender.stop_job, request)
    assert (await job.job())["metadata"]["uid"] == job.result.job_uid


async def test_an_end_is_stored_with_all_that_is_known(ender: Ender, job: Launched) -> None:
    attempt = AttemptRecord(
        launch=1,
        attempt=1,
        job_name=job.result.job_name,
        start_time="2026-11-21T08:00:00Z",
        completion_time="2026-11-21T08:01:00Z",
        exit_code=3,
        reason=Reason.INPUT_FAILED,
    )
    result = await record(
        ender,
        job,
        attempts=(attempt,),
        records=RecordCounts(total=9, completed=4, failed=0),
        delivery="AtLeastOnce",
        started_at="2026-11-21T08:00:00Z",
    )
    status = (await job.now()).status
    assert (result.phase, result.reason) == (Phase.FAILED, Reason.INPUT_FAILED)
    assert (status.phase, status.reason, status.exit_code) == (Phase.FAILED, "InputFailed", 3)
    assert (status.records.completed if status.records else None, str(status.delivery)) == (4, "AtLeastOnce")
    assert [item.exit_code for item in status.attempts] == [3]
    assert status.completion_time is not None
    assert status.duration
    finished = status.condition("Finished")
    assert finished is not None
    assert finished.status == "True"
    assert ("InputFailed", "Warning") in await job.events()


async def test_the_end_that_was_stored_first_stands_and_is_the_answer(ender: Ender, job: Launched) -> None:
    await record(ender, job)
    stored = await job.now()
    again = await record(ender, job, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, exit_code=0)
    assert (again.phase, again.reason, again.message) == (Phase.FAILED, Reason.INPUT_FAILED, "exit code 3")
    assert await job.now() == stored


async def test_a_job_gets_its_time_to_live_once_the_end_is_stored_and_never_before(
    ender: Ender, job: Launched, proxy: Proxy
) -> None:
    assert "ttlSecondsAfterFinished" not in (await job.job())["spec"]
    sent = len(proxy.requests)
    await record(ender, job)
    assert (await job.job())["spec"]["ttlSecondsAfterFinished"] == 777
    patched = [request.path for request in proxy.requests[sent:] if request.method == "PATCH"]
    assert ["inferenceruns" in patched[0], "jobs" in patched[1]] == [True, True]


async def test_all_jobs_of_the_run_get_their_time_to_live_and_no_other(
    ender: Ender, job: Launched, api: KubeClient
) -> None:
    first = await job.job()
    metadata = {"name": f"{job.result.job_name[:60]}-2", "labels": first["metadata"]["labels"]}
    spec = {"suspend": True, "template": {"spec": first["spec"]["template"]["spec"]}}
    second = {"spec": spec, "metadata": {**metadata, "ownerReferences": first["metadata"]["ownerReferences"]}}
    planted = {"spec": spec, "metadata": {**metadata, "name": f"planted-{job.result.job_name[:50]}"}}
    made = [await api.create(JOBS, job.namespace, body) for body in (second, planted)]
    await record(ender, job)
    found = [await api.get(JOBS, job.namespace, item["metadata"]["name"]) for item in (first, *made)]
    assert [item["spec"].get("ttlSecondsAfterFinished") for item in found] == [777, 777, None]


async def test_an_end_of_a_run_that_is_gone_is_told_and_not_an_error(
    ender: Ender, job: Launched, api: KubeClient
) -> None:
    metadata = job.run.metadata
    await api.delete(RUNS, metadata.namespace, metadata.name, uid=metadata.uid)
    result = await record(ender, job)
    assert (result.gone, result.reason) == (True, Reason.RUN_DELETED)


async def test_an_end_whose_job_is_gone_is_stored_all_the_same(ender: Ender, job: Launched, api: KubeClient) -> None:
    await api.delete(JOBS, job.namespace, job.result.job_name, uid=job.result.job_uid)
    assert (await record(ender, job)).phase is Phase.FAILED


async def test_the_end_of_a_schedules_run_prunes_its_schedules_runs(
    ender: Ender, job: Launched, api: KubeClient, pruned: Pruned, make_run: MakeRun
) -> None:
    schedule = (await make_run(schedule="@daily")).ref
    owner = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "name": schedule.name, "uid": schedule.uid}
    child = {"labels": {"inferrun.dev/schedule-uid": schedule.uid}, "ownerReferences": [owner]}
    await api.patch(RUNS, job.namespace, job.run.metadata.name, {"metadata": child})
    await record(ender, job)
    assert pruned.schedules == [schedule]


async def test_the_end_of_any_other_run_prunes_nothing(ender: Ender, job: Launched, pruned: Pruned) -> None:
    await record(ender, job)
    assert pruned.schedules == []


async def test_where_a_run_stands_is_said_but_never_over_its_end(ender: Ender, job: Launched) -> None:
    request = PublishInput(
        run=job.run.ref,
        phase=Phase.PENDING,
        reason=Reason.RETRY_BACKOFF,
        message="attempt 2 of 3 starts in 10 s",
        attempt=2,
        warning=True,
    )
    await ActivityEnvironment().run(ender.publish_status, request)
    status = (await job.now()).status
    assert (status.reason, status.message, status.attempt) == ("RetryBackoff", request.message, 2)
    assert ("RetryBackoff", "Warning") in await job.events()
    await record(ender, job)
    ended = await job.now()
    answer: RecordResult = await ActivityEnvironment().run(ender.publish_status, request)
    assert answer.phase is Phase.FAILED
    assert await job.now() == ended


async def test_a_run_is_deleted_by_its_uid_and_once(ender: Ender, job: Launched, api: KubeClient) -> None:
    ref = job.run.ref
    other = DeleteRunInput(run=ref.model_copy(update={"uid": "00000000-0000-0000-0000-000000000000"}))
    await ActivityEnvironment().run(ender.delete_run, other)
    assert await job.now()
    for _ in range(2):
        await ActivityEnvironment().run(ender.delete_run, DeleteRunInput(run=ref))
    with pytest.raises(NotFound):
        await api.get(RUNS, ref.namespace, ref.name)
