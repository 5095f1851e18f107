"""The observer behind watches that drop events, break, or expire. Nothing that happened meanwhile may be missed.

The informers' own tests are in tests/integration/control/test_informer.py.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.watching import job_state
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, Object
from tests.integration.control.proxy import Proxy, proxied, until
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.launches import ObservedLaunch
from tests.integration.observer.leading import RecordedSignals, leading
from tests.integration.waiting import WAIT_SECONDS, eventually

pytestmark = pytest.mark.thorough

COLLECTIONS = 4
"""Jobs, Pods, runs and quotas are watched."""


@pytest.fixture
async def proxy(kubeconfig: Path, namespace: str, installation: str, signals: RecordedSignals) -> AsyncIterator[Proxy]:
    """Between the API server and a leader."""
    async with (
        proxied(kubeconfig) as (between, client),
        leading(client, namespace, installation, signals),
    ):
        await until(lambda: between.open_watches == COLLECTIONS, what="the watches", seconds=WAIT_SECONDS)
        yield between


async def finish(api: KubeClient, launch: ObservedLaunch) -> None:
    """The container ends, and the Job controller draws its conclusion."""
    await launch.ends(0)

    async def look() -> Object | None:
        job = await api.get(JOBS, launch.run.namespace, launch.job["metadata"]["name"])
        return job if job_state.is_finished(job) else None

    await eventually(look, what="the Job to be finished")


async def test_an_end_during_an_outage_after_which_the_version_has_expired_is_signalled(
    api: KubeClient, proxy: Proxy, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    await launch.runs()
    await launch.says("Running")
    lists = len(proxy.lists)
    proxy.is_silent = True
    await finish(api, launch)
    proxy.answer_watches = [(410, "too old resource version")] * COLLECTIONS
    proxy.is_silent = False
    proxy.cut()
    await signals.has_ended(launch)
    assert len(proxy.lists) >= lists + 1
