"""Runs the benchmark: start the servers and the product, warm up, measure, print the report, stop
everything."""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from campaigns.benchmarks.burst import report
from campaigns.benchmarks.burst.passes import Bench, Pass, until
from campaigns.benchmarks.burst.product import interpreter, product
from campaigns.benchmarks.burst.usage import Meter
from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.processes import Process
from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Resource
from inferrun.temporal.plugin import inferrun_plugin

DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")


@dataclass(frozen=True)
class Options:
    """What to measure, where the servers' programs are and where to write the results."""

    binaries: Path
    results: Path
    bursts: tuple[tuple[int, int], ...] = ((60, 4), (200, 3))
    """Pairs of the size of a burst and the number of measured passes of that size."""
    single: int = 3


def run(options: Options) -> None:
    """Measure, print the report and write all measurements to a file."""
    before = machine()
    with tempfile.TemporaryDirectory(prefix="inferrun-bench-") as name:
        folder = Path(name)
        print(
            "starting etcd, the API server, the controller manager and Temporal, but no scheduler, so that no Pod starts",
            flush=True,
        )
        with control_plane(folder, binaries=options.binaries) as plane:
            measured = asyncio.run(_measure(options, folder, plane))
    for passes in measured:
        print()
        print("\n".join(report.lines(passes)))
    print()
    print(f"before: {before}\nafter:  {machine()}\nshim and worker run on {interpreter()[0]}")
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps([report.values(passes) for passes in measured], indent=1))
    print(f"measurements: {options.results}")


async def _measure(options: Options, folder: Path, plane: ControlPlane) -> list[list[Pass]]:
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await install(api)
        with product(folder, plane) as ours:
            return await _passes(options, api, plane, ours)
    finally:
        await api.close()


async def _passes(
    options: Options, api: KubeClient, plane: ControlPlane, ours: tuple[Process, ...]
) -> list[list[Pass]]:
    temporal = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
    meter = Meter(api, plane.temporal_metrics, (*plane.programs, *ours))
    warm_up = Bench(api, temporal, meter, size=options.bursts[0][0], single=options.single)
    _print("warm-up", await warm_up.one_pass(0))
    number = 0
    found: list[list[Pass]] = []
    for size, count in options.bursts:
        bench = Bench(api, temporal, meter, size=size, single=options.single)
        found.append([])
        for _ in range(count):
            number += 1
            found[-1].append(await bench.one_pass(number))
            _print(f"pass {number}, {size} runs", found[-1][-1])
    return found


def _print(title: str, one: Pass) -> None:
    ours, baseline = one.life.burst.rate, one.baseline.burst.rate
    print(f"{title}: {ours:.1f} Jobs/s, baseline {baseline:.1f}", flush=True)


async def install(api: KubeClient) -> None:
    """Install the custom resource definitions and wait until they are served."""
    for definition in (inference_config(), inference_run()):
        await api.create(DEFINITIONS, None, definition)
    for definition in (inference_config(), inference_run()):
        spec = definition["spec"]
        resource = Resource(
            f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"]
        )
        await until(lambda: _is_served(api, resource), what=f"{resource.plural} to be served")  # noqa: B023 -- called in this iteration only


async def _is_served(api: KubeClient, resource: Resource) -> bool:
    try:
        await api.list(resource)
    except NotFound:
        return False
    return True
