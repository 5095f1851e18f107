"""A namespace that creates hundreds of runs at once delays the runs of another namespace by at most a second.

Shim and worker run against a control plane of their own without a node, so that Jobs are created and never start.
"""

import asyncio
import logging
import statistics
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from benchmarks.burst.product import product
from benchmarks.control_plane import ControlPlane, control_plane
from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import AlreadyExists, NotFound
from inferrun.kube.informer import Informer, Key
from inferrun.kube.objects import CONFIGS, JOBS, NAMESPACES, RUNS, Object
from tests.integration.conftest import CLUSTER_FILES, DEFINITIONS

CROWD = 300
NEIGHBOURS = 6
PAUSE = 0.5

ALLOWED_DELAY = 1.0

logger = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without a node, a Temporal server, a shim and a worker."""
    folder = tmp_path_factory.mktemp("plane")
    with control_plane(folder, binaries=CLUSTER_FILES / "bin") as started:
        asyncio.run(install(started))
        with product(folder, started):
            yield started


async def install(plane: ControlPlane) -> None:
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        for definition in (inference_config(), inference_run()):
            try:
                await api.create(DEFINITIONS, None, definition)
            except AlreadyExists:
                continue
        async with asyncio.timeout(60):
            for resource in (CONFIGS, RUNS):
                while not await is_served(api, resource.plural):  # noqa: ASYNC110 -- there is no event for it
                    await asyncio.sleep(0.1)
    finally:
        await api.close()


async def is_served(api: KubeClient, plural: str) -> bool:
    try:
        await api.list(CONFIGS if plural == CONFIGS.plural else RUNS, None, limit="1")
    except NotFound:
        return False
    return True


class Jobs:
    """When the first Job of each run was created, as its run's owner reference says."""

    def __init__(self, api: KubeClient) -> None:
        self._seen: dict[Key, float] = {}
        self._changed = asyncio.Event()
        self.informer = Informer(api, JOBS, namespace=None, listener=self._on_job)

    def _on_job(self, key: Key, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            owner = after["metadata"]["ownerReferences"][0]["name"]
            self._seen.setdefault((key[0], owner), time.monotonic())
            self._changed.set()

    async def created(self, run: Key) -> float:
        async with asyncio.timeout(120):
            while run not in self._seen:
                self._changed.clear()
                await self._changed.wait()
        return self._seen[run]


class Stage:
    def __init__(self, api: KubeClient, jobs: Jobs) -> None:
        self._api = api
        self._jobs = jobs

    async def namespace(self, name: str) -> None:
        await self._api.create(NAMESPACES, None, {"metadata": {"name": name}})

    async def config(self, namespace: str) -> None:
        end = {"file": {"claimName": "data", "path": "in"}}
        spec = {"kserve": {"modelUrl": "http://model/v2/models/a/infer"}, "storage": {"input": end, "output": end}}
        await self._api.create(CONFIGS, namespace, manifest("InferenceConfig", "config", spec))

    async def run(self, namespace: str, name: str) -> None:
        spec = {"configRef": {"name": "config"}}
        await self._api.create(RUNS, namespace, manifest("InferenceRun", name, spec))

    async def crowd(self, namespace: str) -> None:
        await asyncio.gather(*(self.run(namespace, f"run-{number}") for number in range(CROWD)))

    async def delays(self, namespace: str, prefix: str) -> list[float]:
        """Seconds between the API server's answer to the creation of each of some runs and its Job."""
        found = []
        for number in range(NEIGHBOURS):
            name = f"{prefix}-{number}"
            await self.run(namespace, name)
            began = time.monotonic()
            found.append(await self._jobs.created((namespace, name)) - began)
            await asyncio.sleep(PAUSE)
        return found

    async def until_reason(self, namespace: str, name: str, reason: str) -> None:
        while await self.reason(namespace, name) != reason:  # noqa: ASYNC110 -- the API server has no event for it
            await asyncio.sleep(0.1)

    async def reason(self, namespace: str, name: str) -> str:
        return str(((await self._api.get(RUNS, namespace, name)).get("status") or {}).get("reason", ""))

    async def all_created(self, namespace: str) -> None:
        for number in range(CROWD):
            await self._jobs.created((namespace, f"run-{number}"))


@pytest.fixture
async def stage(plane: ControlPlane) -> AsyncIterator[Stage]:
    api = await connect(kubeconfig=plane.kubeconfig)
    jobs = Jobs(api)
    watching = asyncio.create_task(jobs.informer.run())
    yield Stage(api, jobs)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await api.close()


def manifest(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "ai.krateo.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def report(title: str, alone: list[float], beside: list[float]) -> None:
    logger.info("%s: alone %s, beside the crowd %s", title, summary(alone), summary(beside))


def summary(delays: list[float]) -> str:
    return " ".join(f"{delay:.2f}" for delay in delays) + " s"


async def test_three_hundred_runs_at_once_delay_a_neighbour_by_at_most_a_second(stage: Stage) -> None:
    for name in ("burst", "beside-burst"):
        await stage.namespace(name)
        await stage.config(name)
    alone = await stage.delays("beside-burst", "alone")
    crowd = asyncio.create_task(stage.crowd("burst"))
    beside = await stage.delays("beside-burst", "beside")
    await crowd
    report("burst", alone, beside)
    began = time.monotonic()
    await stage.all_created("burst")
    logger.info("the last of the crowd's Jobs came %.1f s later", time.monotonic() - began)
    assert max(beside) <= statistics.median(alone) + ALLOWED_DELAY


async def test_three_hundred_runs_that_waited_for_a_config_delay_a_neighbour_by_at_most_a_second(stage: Stage) -> None:
    for name in ("waiting", "beside-waiting"):
        await stage.namespace(name)
    await stage.config("beside-waiting")
    alone = await stage.delays("beside-waiting", "alone")
    await stage.crowd("waiting")
    async with asyncio.timeout(90):
        for number in range(CROWD):
            await stage.until_reason("waiting", f"run-{number}", "ConfigNotFound")
    await stage.config("waiting")
    beside = await stage.delays("beside-waiting", "beside")
    report("config", alone, beside)
    await stage.all_created("waiting")
    assert max(beside) <= statistics.median(alone) + ALLOWED_DELAY
