"""A run's status is written on condition of what was decided on, once, and never over an end."""

from collections.abc import Awaitable, Callable

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore, Written
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun, InferenceRunStatus
from tests.integration.control.place import Place
from tests.integration.control.proxy import Json, Proxy

ENDED = {"phase": "Failed", "reason": "Stopped", "message": "it was stopped"}


@pytest.fixture
def store(api: KubeClient) -> RunStore:
    """What is tested, through the proxy."""
    return RunStore(api)


async def write(
    store: RunStore,
    run: InferenceRun,
    decide: Callable[[InferenceRun], InferenceRunStatus | None],
    *,
    read: InferenceRun | None = None,
) -> Written:
    return await store.update_status(run.ref, decide, read=read)


def meddling(
    api: KubeClient, run: InferenceRun, change: Json, *, sub: str | None = "status"
) -> Callable[[], Awaitable[None]]:
    async def meddle() -> None:
        await api.patch(RUNS, run.metadata.namespace, run.metadata.name, change, sub=sub)

    return meddle


async def stored(api: KubeClient, run: InferenceRun) -> Json:
    return await api.get(RUNS, run.metadata.namespace, run.metadata.name)


async def test_a_status_is_written_through_its_subresource_on_condition_of_what_was_read(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris")
    written = await write(
        store, run, lambda _: InferenceRunStatus(phase=Phase.PENDING, message="waits")
    )
    assert written.changed
    assert written.run is not None
    assert (written.run.status.phase, written.run.status.message) == (Phase.PENDING, "waits")
    [sent] = proxy.sent("PATCH")
    assert sent.path.endswith(f"/inferenceruns/{run.metadata.name}/status")
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert sent.body is not None
    assert sent.body["metadata"] == {
        "uid": run.metadata.uid,
        "resourceVersion": run.metadata.resource_version,
    }


async def test_only_what_differs_is_sent_and_what_is_unset_goes(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    before = {
        "phase": "Running",
        "message": "m",
        "exitCode": 4,
        "records": {"total": 9, "completed": 3},
        "workflow": {"id": "w", "url": "http://ui"},
    }
    run = await place.run("iris", status=before)
    wanted = InferenceRunStatus.model_validate(
        {"phase": "Running", "message": "m", "records": {"completed": 4}, "workflow": {"id": "w"}}
    )
    await write(store, run, lambda _: wanted)
    sent = proxy.sent("PATCH")[-1]
    assert sent.body is not None
    assert not {"phase", "message"} & set(sent.body["status"])
    status = (await stored(place.api, run))["status"]
    assert status["records"] == {"completed": 4}
    assert status["workflow"] == {"id": "w"}
    assert "exitCode" not in status


async def test_a_conflict_is_met_by_reading_and_deciding_again(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris", status={"phase": "Pending", "attempt": 1})
    proxy.before_patch = meddling(place.api, run, {"status": {"attempt": 7}})
    seen: list[int | None] = []

    def decide(current: InferenceRun) -> InferenceRunStatus:
        seen.append(current.status.attempt)
        return current.status.model_copy(update={"attempt": (current.status.attempt or 0) + 1})

    written = await write(store, run, decide)
    assert seen == [1, 7]
    assert written.changed
    assert (await stored(place.api, run))["status"]["attempt"] == 8


async def test_what_the_caller_had_read_saves_a_request_and_is_not_trusted_beyond_a_conflict(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris")
    await write(store, run, lambda _: InferenceRunStatus(phase=Phase.PENDING), read=run)
    assert not proxy.sent("GET")
    written = await write(store, run, lambda _: InferenceRunStatus(phase=Phase.RUNNING), read=run)
    assert written.changed
    assert (await stored(place.api, run))["status"]["phase"] == "Running"


async def test_the_end_that_somebody_else_wrote_first_stands(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris", status={"phase": "Running"})
    proxy.before_patch = meddling(place.api, run, {"status": ENDED})
    written = await write(store, run, lambda _: InferenceRunStatus(phase=Phase.SUCCEEDED))
    assert not written.changed
    assert written.run is not None
    assert (written.run.status.phase, written.run.status.reason) == (Phase.FAILED, "Stopped")
    assert (await stored(place.api, run))["status"]["phase"] == "Failed"


async def test_nobody_is_even_asked_about_a_run_that_has_ended(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris", status=ENDED)
    sent = len(proxy.sent("PATCH"))

    def decide(_run: InferenceRun) -> InferenceRunStatus:
        raise AssertionError("it was asked")

    written = await write(store, run, decide)
    assert not written.changed
    assert len(proxy.sent("PATCH")) == sent


@pytest.mark.parametrize("answer", ["the same", "nothing"])
async def test_when_nothing_changes_nothing_is_written(
    place: Place, store: RunStore, proxy: Proxy, answer: str
) -> None:
    run = await place.run(
        "iris", status={"phase": "Running", "message": "m", "startTime": "2026-11-21T08:00:00Z"}
    )
    sent = len(proxy.sent("PATCH"))
    written = await write(
        store, run, lambda current: current.status if answer == "the same" else None
    )
    assert not written.changed
    assert len(proxy.sent("PATCH")) == sent
    assert (await stored(place.api, run))["metadata"][
        "resourceVersion"
    ] == run.metadata.resource_version


async def test_a_run_that_is_gone_before_or_while_it_is_written_is_told(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris")

    async def delete() -> None:
        await place.delete(run)

    proxy.before_patch = delete
    for _ in range(2):
        assert await write(
            store, run, lambda _: InferenceRunStatus(phase=Phase.RUNNING)
        ) == Written(None)


async def test_another_run_of_that_name_is_not_written(place: Place, store: RunStore) -> None:
    run = await place.run("iris")
    another = run.ref.model_copy(update={"uid": "another"})
    written = await store.update_status(another, lambda _: InferenceRunStatus(phase=Phase.RUNNING))
    assert written == Written(None)
    assert (await stored(place.api, run))["status"] == {"observedGeneration": -1}


async def test_a_run_that_is_being_deleted_counts_as_gone(place: Place, store: RunStore) -> None:
    run = await place.run("iris")
    metadata = run.metadata
    where = (RUNS, metadata.namespace, metadata.name)
    await place.api.patch(*where, {"metadata": {"finalizers": ["inferrun.test/held"]}})
    await place.api.delete(*where, uid=metadata.uid)
    try:
        assert await store.read(run.ref) is None
    finally:
        await place.api.patch(*where, {"metadata": {"finalizers": []}})


async def test_somebody_who_fights_for_the_object_does_not_hold_us_for_ever(
    place: Place, store: RunStore, proxy: Proxy
) -> None:
    run = await place.run("iris")
    proxy.answer_patches = 409
    with pytest.raises(Conflict, match="kept changing"):
        await write(store, run, lambda _: InferenceRunStatus(phase=Phase.RUNNING))
    assert 5 <= len(proxy.sent("PATCH")) <= 50
