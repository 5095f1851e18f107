"""Which of KServe's kinds are watched, and when runs are told of their objects."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from inferrun.kserve import GROUP
from inferrun.kube.errors import NotFound
from inferrun.kube.kserve_kinds import missing, not_installed, too_large
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import UNREADABLE
from operator_shim.models import DISCOVERY_SECONDS, ModelWatches, digest_model
from operator_shim.run_plan import News
from tests.unit.inferrun.kserve.stored import Json, knative, recorded, standard
from tests.unit.operator_shim.collections import Collections
from tests.unit.operator_shim.observer.fakes import FakeTime, settle
from tests.unit.operator_shim.shown_runs import NotedLoop, ShownRuns

KEY = ("kserve-test", "run")
NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)


class Served(Collections):
    """Serves KServe's objects if it is installed."""

    is_installed = True
    time = NOW

    def now(self) -> datetime:
        return self.time

    async def text(self, path: str, **_params: str) -> str:
        if not self.is_installed:
            raise NotFound("there is none")
        if path == f"/apis/{GROUP}":
            return json.dumps({"versions": [{"version": "v1beta1"}]})
        return json.dumps({"resources": [{"name": "inferenceservices"}]})


class Stage:
    """The watches, with one run."""

    def __init__(self) -> None:
        self.api = Served()
        self.time = FakeTime(asyncio.get_running_loop())
        self.runs = ShownRuns()
        self.loop = NotedLoop()
        self.watches = ModelWatches(self.api, self.loop, namespaces=ALL, runs=self.runs)

    @property
    def rechecked(self) -> list[str]:
        """The runs that were told of a change."""
        return [uid for uid, news in self.loop.heard if news is News.AWAITED_CHANGED]

    async def wait(self, message: str | None) -> None:
        """The run waits for the model with that message, or not any more."""
        model = {"kind": "InferenceService", "namespace": "kserve-test", "name": "sklearn-iris"}
        status = {"phase": "Pending", "reason": "ModelNotReady", "message": message, "model": model}
        metadata = {"name": KEY[1], "namespace": KEY[0], "uid": "u", "resourceVersion": "1"}
        run = {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
        self.runs.show(KEY, run if message is not None else None)
        await settle()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    task = asyncio.create_task(made.watches.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_kind_is_watched_only_while_a_run_waits_for_an_object_of_it(stage: Stage) -> None:
    await settle()
    assert stage.api.watched == []
    await stage.wait("it is stopped")
    assert stage.api.watched == ["inferenceservices"]
    await stage.wait(None)
    await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.api.watched == []


@pytest.mark.parametrize(
    ("objects", "message", "is_told"),
    [
        ([], missing("InferenceService kserve-test/sklearn-iris"), False),
        ([], "it is stopped", True),
        ([knative()], "it is stopped", True),
        ([recorded("isvc-standard-stopped")], "it is not ready", True),
    ],
    ids=["missing", "deleted", "ready", "stopped"],
)
async def test_a_run_is_told_once_what_it_does_not_know(
    *, stage: Stage, objects: list[Json], message: str, is_told: bool
) -> None:
    for item in objects:
        item["metadata"] |= {
            "uid": "u",
            "resourceVersion": "7",
            "namespace": "kserve-test",
            "name": "sklearn-iris",
        }
    stage.api.listed["inferenceservices"] = objects
    for _ in range(2):
        await stage.wait(message)
        await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.rechecked == (["u"] if is_told else [])


async def test_a_run_is_told_when_a_message_about_an_edit_is_not_true_any_more(
    stage: Stage,
) -> None:
    """The object may never change again."""
    edit = {"manager": "kubectl", "time": "2026-11-21T02:59:30Z", "fieldsV1": {"f:spec": {}}}
    item = standard(
        metadata={"uid": "u", "resourceVersion": "9", "generation": 2, "managedFields": [edit]}
    )
    item["metadata"] |= {"namespace": "kserve-test", "name": "sklearn-iris"}
    stage.api.listed["inferenceservices"] = [item]
    await stage.wait(digest_model({**item, "kind": "InferenceService"}, now=NOW)["wait"])
    await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.rechecked == []
    stage.api.time += timedelta(seconds=40)
    await stage.time.pass_by(40)
    assert stage.rechecked == ["u"]


async def test_an_object_that_is_too_large_is_compared_by_the_message_of_a_launch(
    stage: Stage,
) -> None:
    names = {"name": "sklearn-iris", "namespace": "kserve-test", "uid": "u", "resourceVersion": "7"}
    stage.api.malformed["inferenceservices"] = [
        {"metadata": names, UNREADABLE: "it has 700000 bytes; reduce it"}
    ]
    await stage.wait(
        too_large("InferenceService kserve-test/sklearn-iris", "it has 700000 bytes; reduce it")
    )
    await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.rechecked == []
    await stage.wait("it is stopped")
    assert stage.rechecked == ["u"]


async def test_a_run_is_told_that_kserve_was_installed(stage: Stage) -> None:
    stage.api.is_installed = False
    await stage.wait(not_installed("InferenceService"))
    await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.rechecked == []
    stage.api.is_installed = True
    await stage.time.pass_by(DISCOVERY_SECONDS + 1)
    assert stage.rechecked == ["u"]
