"""`DeleteRun` on a real API server."""

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.delete_run import HistoryPruner, Postpone, RunDeleter
from control.cluster.events import EventRecorder
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIGS, EVENTS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.run_status import ended_status
from inferrun.timestamps import rfc3339, utc_now
from tests.integration.control.place import Place
from tests.integration.control.pods import launch, launcher_of
from tests.unit.launches import no_postponement
from workflows.messages import DeleteRunInput, DeletionResult


@pytest.fixture
def deleter(api: KubeClient) -> RunDeleter:
    """The activity's instance."""
    return deleter_over(api)


def pruner_over(api: KubeClient, postpone: Postpone = no_postponement) -> HistoryPruner:
    events = EventRecorder(api, reporter="tests")
    return HistoryPruner(api, RunStore(api), events=events, postpone=postpone)


def deleter_over(api: KubeClient, postponed: list[RunRef] | None = None) -> RunDeleter:
    """The activity's instance; runs that are to be pruned later are added to `postponed`."""

    async def postpone(run: RunRef, _seconds: int) -> None:
        assert postponed is not None
        postponed.append(run)

    pruner = pruner_over(api, postpone)
    return RunDeleter(
        api, RunStore(api), events=EventRecorder(api, reporter="tests"), pruner=pruner
    )


async def finished(
    place: Place, config: str, *, phase: str = "Succeeded", due_in: float | None = -60
) -> RunRef:
    """A run that was launched and has ended."""
    run = await place.run(config)
    await launch(launcher_of(place.api), run)
    status = {"phase": phase, "reason": phase, "message": "m", "completionTime": rfc3339(utc_now())}
    if due_in is not None:
        status["deleteAfter"] = rfc3339(utc_now() + timedelta(seconds=due_in))
    await place.write_status(run, status)
    return run.ref


async def delete(deleter: RunDeleter, run: RunRef) -> None:
    await ActivityEnvironment().run(deleter.delete_run, DeleteRunInput(run=run))


async def test_a_run_is_deleted_by_its_uid_and_once(place: Place, deleter: RunDeleter) -> None:
    ref = await finished(place, await place.config(autoDeletePolicy="DeleteOnCompletion"))
    await delete(deleter, ref.model_copy(update={"uid": "00000000-0000-0000-0000-000000000000"}))
    assert await place.api.get(RUNS, ref.namespace, ref.name)
    for _ in range(2):
        await delete(deleter, ref)
    with pytest.raises(NotFound):
        await place.api.get(RUNS, ref.namespace, ref.name)


@pytest.mark.parametrize(
    ("policy", "phase", "text"),
    [
        ("DeleteOnCompletion", "Running", "has not ended"),
        ("None", "Succeeded", "keeps it"),
        ("DeleteOnSuccess", "Failed", "keeps it"),
    ],
)
async def test_a_run_that_must_be_kept_is_not_deleted(
    place: Place, deleter: RunDeleter, *, policy: str, phase: str, text: str
) -> None:
    ref = await finished(
        place, await place.config(autoDeletePolicy=policy), phase=phase, due_in=None
    )
    with pytest.raises(ApplicationError, match=text) as refused:
        await delete(deleter, ref)
    assert refused.value.non_retryable
    assert await place.api.get(RUNS, ref.namespace, ref.name)


async def test_a_run_that_was_never_started_is_not_deleted(
    place: Place, deleter: RunDeleter
) -> None:
    run = await place.run(
        "iris", status={"phase": "Failed", "reason": "InvalidSpec", "message": "m"}
    )
    with pytest.raises(ApplicationError, match="keeps it"):
        await delete(deleter, run.ref)


async def test_a_run_is_not_deleted_before_its_delay_is_over(
    place: Place, deleter: RunDeleter
) -> None:
    config = await place.config(autoDeletePolicy="DeleteOnSuccess", autoDeleteDelaySeconds=900)
    ref = await finished(place, config, due_in=300)
    with pytest.raises(ApplicationError, match="is kept until") as early:
        await delete(deleter, ref)
    assert not early.value.non_retryable
    assert early.value.next_retry_delay is not None
    assert 0 < early.value.next_retry_delay.total_seconds() <= 300
    assert await place.api.get(RUNS, ref.namespace, ref.name)


async def child_of(place: Place, parent: InferenceRun, *, ended_ago: float) -> RunRef:
    """A run of a schedule whose outcome was written so many seconds ago; its container may have
    ended long before that."""
    child = await place.run("iris")
    owner = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": parent.metadata.name,
    }
    metadata = {
        "labels": {wellknown.LABEL_SCHEDULE_UID: parent.metadata.uid},
        "ownerReferences": [{**owner, "uid": parent.metadata.uid, "controller": True}],
    }
    await place.api.patch(
        RUNS, child.metadata.namespace, child.metadata.name, {"metadata": metadata}
    )

    def ended(run: InferenceRun) -> InferenceRunStatus:
        recorded = utc_now() - timedelta(seconds=ended_ago)
        return ended_status(
            run,
            phase=Phase.SUCCEEDED,
            reason=Reason.SUCCEEDED,
            message="done",
            now=recorded,
            finished=recorded - timedelta(hours=1),
            earliest=recorded - timedelta(hours=2),
        )

    await RunStore(place.api).update_status(child.ref, ended)
    return child.ref


async def exists(api: KubeClient, run: RunRef) -> bool:
    try:
        await api.get(RUNS, run.namespace, run.name)
    except NotFound:
        return False
    return True


async def test_a_run_that_has_only_just_ended_is_pruned_later(place: Place) -> None:
    """Its workflow is still open, and the submission of the schedule has not read how it ended."""
    parent = await place.run("iris", schedule="1 * * * *", successfulJobsHistoryLimit=0)
    old = await child_of(place, parent, ended_ago=31)
    new = await child_of(place, parent, ended_ago=5)
    postponed: list[RunRef] = []
    deleter = deleter_over(place.api, postponed)
    result: DeletionResult = await ActivityEnvironment().run(
        deleter.delete_run, DeleteRunInput(run=old)
    )
    assert (result.deleted, postponed) == (True, [new])
    assert not await exists(place.api, old)
    with pytest.raises(ApplicationError, match="is kept until") as early:
        await delete(deleter, new)
    assert early.value.next_retry_delay is not None
    assert 20 < early.value.next_retry_delay.total_seconds() <= 30
    assert await exists(place.api, new)


async def test_a_run_that_is_ending_is_pruned_later_even_if_its_outcome_was_written_long_ago(
    place: Place,
) -> None:
    """The worker was killed after that, and another one has taken over only now."""
    parent = await place.run("iris", schedule="1 * * * *", successfulJobsHistoryLimit=0)
    child = await child_of(place, parent, ended_ago=300)
    postponed: list[tuple[RunRef, int]] = []

    async def postpone(run: RunRef, seconds: int) -> None:
        postponed.append((run, seconds))

    assert await pruner_over(place.api, postpone).prune(parent.ref, ending=child) == []
    assert postponed == [(child, 30)]
    assert await exists(place.api, child)


async def test_a_run_that_its_schedule_keeps_by_now_is_not_pruned(place: Place) -> None:
    parent = await place.run("iris", schedule="1 * * * *", successfulJobsHistoryLimit=1)
    child = await child_of(place, parent, ended_ago=60)
    result: DeletionResult = await ActivityEnvironment().run(
        deleter_over(place.api).delete_run, DeleteRunInput(run=child)
    )
    assert (result.deleted, result.gone) == (False, False)
    assert f"kept by the history limits of {parent.metadata.name}" in result.message
    assert await exists(place.api, child)


async def test_an_automatic_deletion_is_announced_on_the_run_and_its_config(place: Place) -> None:
    config = await place.config()
    run = await place.run(
        config,
        status={"phase": "Succeeded", "reason": "Succeeded", "deleteAfter": "2026-01-01T00:00:00Z"},
    )
    because = "autoDeletePolicy is DeleteOnSuccess and autoDeleteDelaySeconds 300"
    request = DeleteRunInput(run=run.ref, because=f"{because}\n{'x' * 1000}")
    deleter = deleter_over(place.api)
    result: DeletionResult = await ActivityEnvironment().run(deleter.delete_run, request)
    assert result.deleted
    policy = f"autoDeletePolicy in InferenceConfig {config}"
    assert result.message.startswith(
        f"InferenceRun {run.metadata.name} (Succeeded) is deleted: {policy}; {because} x"
    )
    assert len(result.message) < 500
    with pytest.raises(NotFound):
        await place.api.get(RUNS, run.metadata.namespace, run.metadata.name)
    uids = [
        run.metadata.uid,
        (await place.api.get(CONFIGS, run.metadata.namespace, config))["metadata"]["uid"],
    ]
    for uid in uids:
        selector = f"involvedObject.uid={uid},reason=AutoDeleted"
        found = (await place.api.list(EVENTS, run.metadata.namespace, fieldSelector=selector))[
            "items"
        ]
        assert [event["message"] for event in found] == [result.message]
    again: DeletionResult = await ActivityEnvironment().run(deleter.delete_run, request)
    assert (again.gone, again.deleted) == (True, False)
    assert "had been deleted before" in again.message


async def test_a_run_beyond_the_history_limit_is_announced_on_the_run_and_its_schedule(
    place: Place,
) -> None:
    parent = await place.run("iris", schedule="1 * * * *", successfulJobsHistoryLimit=0)
    child = await child_of(place, parent, ended_ago=60)
    name = child.name
    assert await pruner_over(place.api).prune(parent.ref) == [name]
    limit = f"successfulJobsHistoryLimit of {parent.metadata.name}"
    expected = f"InferenceRun {name} (Succeeded) is deleted: {limit} keeps no more runs"
    for uid in (child.uid, parent.metadata.uid):
        selector = f"involvedObject.uid={uid},reason=HistoryPruned"
        found = (await place.api.list(EVENTS, place.namespace, fieldSelector=selector))["items"]
        assert [event["message"] for event in found] == [expected]


WAITING = {"phase": "Pending", "reason": "WaitingForRun", "message": "m"}


async def test_a_run_is_kept_until_the_run_that_waits_for_its_output_has_started(
    place: Place, deleter: RunDeleter
) -> None:
    ref = await finished(place, await place.config())
    reader = await place.run(
        "iris",
        status={**WAITING, "inputRun": {"name": ref.name, "uid": ref.uid, "phase": "Running"}},
    )
    await place.run("iris", status={**WAITING, "inputRun": {"name": "another"}})
    with pytest.raises(
        ApplicationError, match=f"{reader.metadata.name} waits to read the output"
    ) as early:
        await delete(deleter, ref)
    assert (early.value.non_retryable, early.value.next_retry_delay) == (
        False,
        timedelta(seconds=60),
    )
    started = {"status": {"reason": "JobCreated", "contract": "e30="}}
    await place.api.patch(RUNS, ref.namespace, reader.metadata.name, started, sub="status")
    await delete(deleter, ref)
    assert not await exists(place.api, ref)


async def test_the_history_limits_of_a_schedule_keep_a_run_whose_output_another_one_waits_for(
    place: Place,
) -> None:
    parent = await place.run("iris", schedule="1 * * * *", successfulJobsHistoryLimit=0)
    child = await child_of(place, parent, ended_ago=60)
    await place.run("iris", status={**WAITING, "inputRun": {"name": child.name}})
    postponed: list[tuple[RunRef, int]] = []

    async def postpone(run: RunRef, seconds: int) -> None:
        postponed.append((run, seconds))

    assert await pruner_over(place.api, postpone).prune(parent.ref) == []
    assert postponed == [(child, 60)]
    assert await exists(place.api, child)
