"""Two installations that watch the same namespace, on a real API server: who observes its Jobs, and who labels them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex

from inferrun import wellknown
from inferrun.control.territory import Territory
from inferrun.kube.claims import ClaimTiming
from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Informer, Key
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import JOBS, Object
from inferrun.reasons import Reason
from tests.integration.observer.launches import create_launch, eventually
from tests.integration.observer.leading import RecordedSignals, leading

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has the CPU"}
TIMING = ClaimTiming(duration=10, renew=1)


class LabelHistory:
    """The installations whose label the Jobs of a namespace had, one after the other."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self.seen: list[str] = []
        self._informer = Informer(api, JOBS, namespace=namespace, listener=self._note)

    @asynccontextmanager
    async def recorded(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._informer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _note(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        label = after["metadata"]["labels"].get(wellknown.LABEL_INSTALLATION) if after is not None else None
        if label is not None and self.seen[-1:] != [label]:
            self.seen.append(label)


@asynccontextmanager
async def observing(
    api: KubeClient, namespace: str, installation: str, signals: RecordedSignals
) -> AsyncIterator[Territory]:
    territory = Territory(api, watched=Namespaces((namespace,)), installation=installation, timing=TIMING)
    async with leading(api, namespace, installation, signals, served=territory) as watch:
        territory.subscribe(watch.begin)
        task = asyncio.create_task(territory.run())
        try:
            yield territory
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_job_is_labelled_once_when_another_installation_takes_over(api: KubeClient, namespace: str) -> None:
    installation, second = f"first.{token_hex(8)}", f"second.{token_hex(8)}"
    signals, history = RecordedSignals(), LabelHistory(api, namespace)
    launch = await create_launch(api, namespace, installation=installation, clock=600)

    async def is_served(territory: Territory) -> bool | None:
        return namespace in territory or None

    async def is_refused(territory: Territory) -> bool | None:
        return installation in territory.refusals or None

    async with history.recorded(), AsyncExitStack() as later:
        async with observing(api, namespace, installation, signals) as first:
            await eventually(lambda: is_served(first), what="the first installation to serve the namespace")
            twin = await later.enter_async_context(observing(api, namespace, second, signals))
            await eventually(lambda: is_refused(twin), what="the second installation to refuse")
            await launch.tell(None, phase="Pending", conditions=[UNSCHEDULABLE])
            await launch.says(Reason.UNSCHEDULABLE)
            assert namespace not in twin
        await eventually(lambda: is_served(twin), what="the second installation to serve the namespace")

        async def is_taken() -> bool | None:
            return history.seen == [installation, second] or None

        await eventually(is_taken, what=f"the Job to be labelled, not {history.seen}")
        await launch.runs()
        await signals.has_started(launch)
        assert history.seen == [installation, second]
