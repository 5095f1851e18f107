"""`RecordOutcome` on a real API server: what is stored, and what follows."""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.delete_run import HistoryPruner
from activities.record_outcome import OutcomeRecorder
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError, Overloaded
from inferrun.kube.objects import JOBS, RUNS
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.run_ref import RunRef
from inferrun.runner_report import RecordCounts
from inferrun.timestamps import parse
from tests.integration.control.place import Place
from tests.integration.control.pods import Launched, recorder_of
from tests.integration.control.proxy import Proxy
from workflows.messages import RecordInput, StatusResult


class Pruned(HistoryPruner):
    """Notes which schedules' runs were to be pruned."""

    def __init__(self) -> None:
        self.schedules: list[RunRef] = []
        self.error: KubeError | None = None

    async def prune(self, parent: RunRef, *, ending: RunRef | None = None) -> list[str]:
        assert ending is not None
        assert ending.namespace == parent.namespace
        if self.error is not None:
            raise self.error
        self.schedules.append(parent)
        return []


@pytest.fixture
def pruned() -> Pruned:
    """The schedules whose runs were to be pruned."""
    return Pruned()


@pytest.fixture
async def recorder(api: KubeClient, pruned: Pruned) -> OutcomeRecorder:
    return await recorder_of(api, pruner=pruned)


async def record(recorder: OutcomeRecorder, job: Launched, **changes: object) -> StatusResult:
    request = RecordInput.model_validate(
        {
            "run": job.run.ref,
            "phase": Phase.FAILED,
            "reason": Reason.INPUT_FAILED,
            "message": "exit code 3",
            "exit_code": 3,
            **changes,
        }
    )
    result: StatusResult = await ActivityEnvironment().run(recorder.record_outcome, request)
    return result


async def test_an_outcome_is_stored_with_all_of_its_fields(
    recorder: OutcomeRecorder, job: Launched
) -> None:
    attempt = Attempt(
        launch=1,
        attempt=1,
        job_name=job.result.job_name,
        start_time=parse("2026-11-21T08:00:00Z"),
        completion_time=parse("2026-11-21T08:01:00Z"),
        exit_code=3,
        reason=Reason.INPUT_FAILED,
    )
    result = await record(
        recorder,
        job,
        attempts=(attempt,),
        records=RecordCounts(total=9, completed=4, failed=0),
        delivery="AtLeastOnce",
        started_at="2026-11-21T08:00:00Z",
    )
    status = (await job.now()).status
    assert (result.phase, result.reason) == (Phase.FAILED, Reason.INPUT_FAILED)
    assert (status.phase, status.reason, status.exit_code) == (Phase.FAILED, "InputFailed", 3)
    assert (status.records.completed if status.records else None, str(status.delivery)) == (
        4,
        "AtLeastOnce",
    )
    assert [item.exit_code for item in status.attempts] == [3]
    assert status.completion_time is not None
    assert status.duration
    finished = status.condition("Finished")
    assert finished is not None
    assert finished.status == "True"
    assert ("InputFailed", "Warning") in await job.events()


async def test_the_outcome_that_was_stored_first_is_kept_and_returned(
    recorder: OutcomeRecorder, job: Launched
) -> None:
    await record(recorder, job)
    stored = await job.now()
    again = await record(recorder, job, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, exit_code=0)
    assert (again.phase, again.reason, again.message) == (
        Phase.FAILED,
        Reason.INPUT_FAILED,
        "exit code 3",
    )
    assert await job.now() == stored


async def test_a_job_gets_its_time_to_live_only_after_the_outcome_is_stored(
    recorder: OutcomeRecorder, job: Launched, proxy: Proxy
) -> None:
    assert "ttlSecondsAfterFinished" not in (await job.job())["spec"]
    sent = len(proxy.requests)
    await record(recorder, job)
    assert (await job.job())["spec"]["ttlSecondsAfterFinished"] == 777
    patched = [request.path for request in proxy.requests[sent:] if request.method == "PATCH"]
    assert ["inferenceruns" in patched[0], "jobs" in patched[1]] == [True, True]


async def test_only_the_runs_own_jobs_get_a_time_to_live(
    recorder: OutcomeRecorder, job: Launched, api: KubeClient
) -> None:
    first = await job.job()
    metadata = {"name": f"{job.result.job_name[:60]}-2", "labels": first["metadata"]["labels"]}
    spec = {"suspend": True, "template": {"spec": first["spec"]["template"]["spec"]}}
    second = {
        "spec": spec,
        "metadata": {**metadata, "ownerReferences": first["metadata"]["ownerReferences"]},
    }
    planted = {
        "spec": spec,
        "metadata": {**metadata, "name": f"planted-{job.result.job_name[:50]}"},
    }
    made = [await api.create(JOBS, job.namespace, body) for body in (second, planted)]
    await record(recorder, job)
    found = [
        await api.get(JOBS, job.namespace, item["metadata"]["name"]) for item in (first, *made)
    ]
    assert [item["spec"].get("ttlSecondsAfterFinished") for item in found] == [777, 777, None]


async def test_the_outcome_of_a_deleted_run_is_not_an_error(
    recorder: OutcomeRecorder, job: Launched, api: KubeClient
) -> None:
    metadata = job.run.metadata
    await api.delete(RUNS, metadata.namespace, metadata.name, uid=metadata.uid)
    result = await record(recorder, job)
    assert (result.gone, result.reason) == (True, Reason.RUN_DELETED)


async def test_an_outcome_is_stored_although_the_job_is_gone(
    recorder: OutcomeRecorder, job: Launched, api: KubeClient
) -> None:
    await api.delete(JOBS, job.namespace, job.result.job_name, uid=job.result.job_uid)
    assert (await record(recorder, job)).phase is Phase.FAILED


async def make_child(api: KubeClient, job: Launched, schedule: RunRef) -> None:
    owner = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "name": schedule.name,
        "uid": schedule.uid,
    }
    child = {"labels": {"inferrun.dev/schedule-uid": schedule.uid}, "ownerReferences": [owner]}
    await api.patch(RUNS, job.namespace, job.run.metadata.name, {"metadata": child})


async def test_the_outcome_of_a_scheduled_run_prunes_its_schedules_history(
    place: Place, recorder: OutcomeRecorder, job: Launched, pruned: Pruned
) -> None:
    schedule = (await place.run("iris", schedule="@daily")).ref
    await make_child(place.api, job, schedule)
    await record(recorder, job)
    assert pruned.schedules == [schedule]


async def test_a_history_that_could_not_be_pruned_is_pruned_by_the_next_try(
    place: Place, recorder: OutcomeRecorder, job: Launched, pruned: Pruned
) -> None:
    schedule = (await place.run("iris", schedule="@daily")).ref
    await make_child(place.api, job, schedule)
    pruned.error = Overloaded("too many requests", status=429)
    with pytest.raises(Overloaded):
        await record(recorder, job)
    assert (await job.now()).status.is_terminal
    pruned.error = None
    await record(recorder, job)
    assert pruned.schedules == [schedule]
