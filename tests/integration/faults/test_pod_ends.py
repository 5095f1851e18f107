"""Pods that other containers hold open, that are deleted, or that their node rejects: the real product, and a played node."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from control.informer import Informer, Key
from inferrun.kube.objects import PODS, Object
from inferrun.reasons import Reason
from tests.faults.node import Container, run_of
from tests.faults.scenarios import failure_message, success_message
from tests.faults.users import create_config, create_run
from tests.faults.world import World, until, world

SPACE = "pod-ends"
CUSTOM = "registry/own:1"
SHARDS = 2
SUCCEEDS = Container(message=success_message(), other_runs_on=True, stops_after=2.0)
FAILS = Container(exit_code=3, message=failure_message(), other_runs_on=True, stops_after=2.0)


def behave(run: str, launch: int, verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """By the run's name; what is deleted or rejected succeeds the second time."""
    if "succeeds" in run:
        return SUCCEEDS
    if "fails" in run:
        return FAILS
    if launch > 1 or verifies:
        return Container(message=success_message())
    return Container(ends_after=None, is_rejected="rejected" in run, exit_code_when_stopped=2)


class Ground:
    """The world, and how many Pods each run had at a time."""

    def __init__(self, found: World) -> None:
        self.world = found
        self.most: dict[str, int] = {}
        self.pods = Informer(found.api, PODS, namespace=SPACE, listener=self._on_pod)

    def _on_pod(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            name = run_of(after)
            self.most[name] = max(self.most.get(name, 0), len(self.of(name)))

    def of(self, run: str) -> list[Object]:
        return [pod for _, pod in self.pods.items() if run_of(pod) == run]

    def status(self, run: str) -> Object:
        found: Object = (self.world.recorder.run_named(SPACE, run) or {}).get("status") or {}
        return found

    async def ended(self, run: str) -> Object:
        """The status of the run at its end."""

        def has_ended() -> bool:
            return self.status(run).get("phase") in ("Succeeded", "Failed")

        await until(f"{run} ends", has_ended, seconds=90, now=lambda: self.status(run))
        return self.status(run)

    def is_clean(self, run: str) -> bool:
        """Whether no Pod and no Job of the run is left."""
        jobs = [job for _, job in self.world.recorder.jobs.items() if run_of(job) == run]
        return not jobs and not self.of(run)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with world(tmp_path, behave=behave) as found, found.installation(SPACE):
        made = Ground(found)
        watching = asyncio.create_task(made.pods.run())
        await create_config(found.api, SPACE, "ours", backoffLimit=1)
        await create_config(found.api, SPACE, "custom", backoffLimit=1, image=CUSTOM)
        yield made
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_runs_end_as_their_containers_do_whatever_becomes_of_their_pods(ground: Ground) -> None:
    api = ground.world.api
    for config in ("ours", "custom"):
        for does in ("succeeds", "fails", "rejected", "deleted"):
            await create_run(api, SPACE, f"{config}-{does}", config=config)
    for does in ("succeeds", "fails"):
        await create_run(api, SPACE, f"shards-{does}", config="ours", shards=SHARDS)
    for name in ("ours-deleted", "custom-deleted"):
        await until(f"{name} runs", partial(_runs, ground, name), seconds=180, now=partial(ground.status, name))
        [pod] = ground.of(name)
        await api.delete(PODS, SPACE, pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace=0)

    for kind in ("ours", "custom", "shards"):
        status = await ground.ended(f"{kind}-succeeds")
        assert (status["phase"], status["attempt"], len(status["attempts"])) == ("Succeeded", 1, 1)
        await until("nothing is left", partial(ground.is_clean, f"{kind}-succeeds"), seconds=180)
        status = await ground.ended(f"{kind}-fails")
        reasons = [item["reason"] for item in status["attempts"]]
        assert (status["phase"], status["attempt"], reasons) == ("Failed", 2, [Reason.INPUT_FAILED] * 2)
        assert not [pod for pod in ground.of(f"{kind}-fails") if pod["status"]["phase"] == "Running"]
        assert ground.most[f"{kind}-fails"] == (SHARDS if kind == "shards" else 1)
    for config in ("ours", "custom"):
        for does in ("rejected", "deleted"):
            status = await ground.ended(f"{config}-{does}")
            reasons = [item["reason"] for item in status["attempts"]]
            assert (status["phase"], status["attempt"]) == ("Succeeded", 1)
            assert reasons == [Reason.DISRUPTED, Reason.SUCCEEDED]


def _runs(ground: Ground, name: str) -> bool:
    pods = ground.of(name)
    return bool(pods) and pods[0]["status"].get("phase") == "Running"
