"""A new run does not wait until a shim that starts has listed all runs."""

from temporalio.client import Client

from campaigns.benchmarks.control_plane import ControlPlane
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.run_defaults import Defaults
from tests.integration.control.proxy import proxied
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, read, workflow_status, write_status
from tests.integration.waiting import until

ACTIVE = {"phase": "Running", "reason": "Running", "observedGeneration": 1}


async def test_new_runs_start_while_all_runs_are_being_listed(
    *,
    plane: ControlPlane,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    start_shim: StartShim,
) -> None:
    old = await create(api, namespace, "old", status=ACTIVE)
    before = await create(api, namespace, "before")

    async with proxied(plane.kubeconfig) as (proxy, far):
        proxy.holds_lists_of = RUNS.plural
        async with start_shim(through=far) as shim:

            async def is_accepted() -> bool:
                return (await read(api, before)).status.reason == "Accepted"

            async def is_ready() -> bool:
                return shim.is_ready

            await until(lambda: workflow_status(temporal, before), lambda found: found is not None)
            during = await create(api, namespace, "during")
            await until(lambda: workflow_status(temporal, during), lambda found: found is not None)
            await until(is_accepted)
            await write_status(api, during, phase="Failed", reason="InputFailed")
            assert not shim.is_ready
            assert await workflow_status(temporal, old) is None
            proxy.lists_are_due.set()
            await until(is_ready)
            await until(lambda: workflow_status(temporal, old), lambda found: found is not None)
    watches = [one.query["resourceVersion"] for one in proxy.watches if RUNS.plural in one.path]
    assert len(watches) == 2, "the watch beside the list, and the one after it"


async def test_active_runs_that_are_not_listed_yet_take_room(
    *,
    plane: ControlPlane,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    start_shim: StartShim,
) -> None:
    await create(api, namespace, "active", status=ACTIVE)
    ended = await create(api, namespace, "ended", status={**ACTIVE, "phase": "Succeeded"})
    new = await create(api, namespace, "new")

    async with proxied(plane.kubeconfig) as (proxy, far):
        proxy.holds_lists_of = RUNS.plural
        async with start_shim(
            through=far, defaults=lambda: Defaults(max_active_runs_per_namespace=1)
        ):

            async def waits_for_room() -> bool:
                return (await read(api, new)).status.reason == "TooManyActiveRuns"

            await until(waits_for_room)
            assert await workflow_status(temporal, new) is None
            assert await workflow_status(temporal, ended) is None
