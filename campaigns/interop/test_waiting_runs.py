"""A thousand runs that wait for one model of KServe hold nothing, and start within 30 s of its
becoming ready.

Shim and worker run as processes against a control plane of their own without a node, so that Jobs
are created and never start. Time depends on the number of CPUs and on what else they do; the CPU
time per run, which is reported too, hardly does.
"""

import asyncio
import logging
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest
from temporalio.client import Client

from campaigns.benchmarks.burst.product import product
from campaigns.benchmarks.burst.requests import read_requests
from campaigns.benchmarks.burst.run import install as install_ours
from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from campaigns.benchmarks.processes import Process
from control.informer import Informer, Key
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.objects import JOBS, NAMESPACES, RUNS, Object
from inferrun.names import run_workflow_id
from inferrun.resources import InferenceRun
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.conftest import CLUSTER_FILES
from tests.integration.kserve.cluster import apply, create_config, create_run, install
from tests.unit.inferrun.kserve.stored import knative, merged, recorded

RUNS_WAITING = 1000
ALLOWED_SECONDS = 30.0
SAMPLE = 20
MAX_EVENTS = 14
"""Of the history of a run that has waited once: its start, one launch, one timer."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Installed:
    """A control plane without a node, a Temporal server, a shim and a worker."""

    plane: ControlPlane
    programs: tuple[Process, ...]

    def cpu_seconds(self) -> dict[str, float]:
        return {
            program.name: program.cpu_seconds()
            for program in (*self.plane.programs, *self.programs)
        }


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    with control_plane(
        tmp_path, binaries=CLUSTER_FILES / "bin", controller_requests=200
    ) as started:
        asyncio.run(_install(started))
        with product(tmp_path, started) as programs:
            yield Installed(started, programs)


async def _install(plane: ControlPlane) -> None:
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await install_ours(api)
        await install(api)
    finally:
        await api.close()


@pytest.fixture
async def api(installed: Installed) -> AsyncIterator[KubeClient]:
    made = await connect(kubeconfig=installed.plane.kubeconfig)
    yield made
    await made.close()


class Observed:
    """When the runs' first Jobs were created, and which runs wait for their model."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self.jobs: dict[str, float] = {}
        self.waiting: set[str] = set()
        self.watches = (
            Informer(api, JOBS, namespace=namespace, listener=self._on_job),
            Informer(api, RUNS, namespace=namespace, listener=self._on_run),
        )

    def _on_job(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.jobs.setdefault(after["metadata"]["ownerReferences"][0]["name"], time.monotonic())

    def _on_run(self, key: Key, _before: Object | None, after: Object | None) -> None:
        if after is not None and (after.get("status") or {}).get("reason") == "ModelNotReady":
            self.waiting.add(key[1])


async def _until(count: int, found: "dict[str, float] | set[str]", *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while len(found) < count:  # noqa: ASYNC110 -- the watch has no event for a number
            await asyncio.sleep(0.1)


async def _check_that_nothing_is_held(client: Client, runs: list[InferenceRun]) -> int:
    """The length of the longest history."""
    longest = 0
    for run in runs:
        found = await client.get_workflow_handle(run_workflow_id(run.ref)).describe()
        assert not found.raw_description.pending_activities
        longest = max(longest, found.history_length)
    return longest


def per_run(amounts: Mapping[str, float], factor: float) -> str:
    return ", ".join(
        f"{name} {amount * factor / RUNS_WAITING:.2f}" for name, amount in amounts.items()
    )


async def test_a_thousand_runs_that_wait_for_one_model_start_within_thirty_seconds(
    api: KubeClient, installed: Installed
) -> None:
    namespace = f"kserve-{token_hex(4)}"
    await api.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    await apply(
        api,
        namespace,
        merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}}),
    )
    await create_config(api, namespace, serviceRef={"name": "sklearn-iris"})
    observed = Observed(api, namespace)
    watching = [asyncio.create_task(watch.run()) for watch in observed.watches]
    began = time.monotonic()
    gate = asyncio.Semaphore(50)

    async def create(number: int) -> InferenceRun:
        async with gate:
            return await create_run(api, namespace, f"run-{number}")

    runs = await asyncio.gather(*(create(number) for number in range(RUNS_WAITING)))
    await _until(RUNS_WAITING, observed.waiting, seconds=300)
    waiting_after = time.monotonic() - began
    client = await Client.connect(installed.plane.temporal_address, plugins=[inferrun_plugin()])
    longest = await _check_that_nothing_is_held(client, list(runs[:: RUNS_WAITING // SAMPLE]))
    assert observed.jobs == {}
    assert longest <= MAX_EVENTS

    cpu, requests = installed.cpu_seconds(), await read_requests(api)
    ready = time.monotonic()
    await apply(api, namespace, knative())
    await _until(RUNS_WAITING, observed.jobs, seconds=300)
    delays = sorted(at - ready for at in observed.jobs.values())
    used = {name: seconds - cpu[name] for name, seconds in installed.cpu_seconds().items()}
    sent = await read_requests(api) - requests
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    text = (
        f"{RUNS_WAITING} runs waited after {waiting_after:.1f} s with at most {longest} history events and no activity; the model "
        f"became ready: first Job after {delays[0]:.1f} s, median {statistics.median(delays):.1f} s, last {delays[-1]:.1f} s; "
        f"CPU per run in ms: {per_run(used, 1000)}; "
        f"requests per run: {per_run(sent, 1)}"
    )
    print(text)
    assert delays[-1] <= ALLOWED_SECONDS, text
