"""The story of this benchmark: start the servers and the product, warm up, measure, print, end everything."""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from benchmarks.burst import report
from benchmarks.burst.passes import Bench, Pass, until
from benchmarks.burst.product import product
from benchmarks.control_plane import ControlPlane, control_plane
from benchmarks.programs import Program
from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Resource
from inferrun.temporal.plugin import inferrun_plugin

DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")


@dataclass(frozen=True)
class Order:
    """What to measure, and where the servers' programs are."""

    binaries: Path
    results: Path
    size: int = 60
    lone: int = 3
    passes: int = 5


def run(order: Order) -> None:
    """Measure and print; the values go to a file as well."""
    before = report.machine()
    with tempfile.TemporaryDirectory(prefix="inferrun-bench-") as name:
        folder = Path(name)
        print(
            "starting etcd, API server, controller manager and Temporal; no scheduler, so that no Pod starts",
            flush=True,
        )
        with control_plane(folder, binaries=order.binaries) as plane:
            passes = asyncio.run(_measure(order, folder, plane))
    print()
    print("\n".join(report.lines(passes, size=order.size)))
    print()
    print(f"before: {before}\nafter:  {report.machine()}")
    order.results.parent.mkdir(parents=True, exist_ok=True)
    order.results.write_text(json.dumps(report.values(passes, size=order.size), indent=1))
    print(f"values: {order.results}")


async def _measure(order: Order, folder: Path, plane: ControlPlane) -> list[Pass]:
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await _install(api)
        with product(folder, plane) as ours:
            return await _passes(order, api, plane, ours)
    finally:
        await api.close()


async def _passes(order: Order, api: KubeClient, plane: ControlPlane, ours: tuple[Program, ...]) -> list[Pass]:
    temporal = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
    bench = Bench(api, temporal, (*plane.programs, *ours), size=order.size, lone=order.lone)
    found = []
    for number in range(order.passes + 1):
        one = await bench.one_pass(number)
        title = f"pass {number} of {order.passes}" if number else "warm-up"
        print(f"{title}: {one.burst.rate:.1f} Jobs/s, bare {one.bare.rate:.1f}", flush=True)
        found.append(one)
    return found[1:]


async def _install(api: KubeClient) -> None:
    """The definitions, as generated; they are served a moment later."""
    for definition in (inference_config(), inference_run()):
        await api.create(DEFINITIONS, None, definition)
    for definition in (inference_config(), inference_run()):
        spec = definition["spec"]
        resource = Resource(f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"])
        await until(lambda: _is_served(api, resource), what=f"{resource.plural} to be served")  # noqa: B023 -- waited for in the turn


async def _is_served(api: KubeClient, resource: Resource) -> bool:
    try:
        await api.list(resource)
    except NotFound:
        return False
    return True
