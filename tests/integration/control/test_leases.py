"""Leader election against a real API server: who leads, how fast another takes over, and that never
two renew."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from control.leases import LeaderElection, LeaseTiming
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import LEASES, Object
from tests.integration.control.proxy import Proxy, proxied, until

pytestmark = pytest.mark.thorough

FAST = LeaseTiming(duration=4, renew=1, give_up=3, look=0.25, request=1.5, retry=0.1)
"""About half of the default, to keep the tests short."""

LONG = LeaseTiming(duration=90)
"""Nobody takes over within the time of a test because this has expired."""

Elect = Callable[..., LeaderElection]
Spec = Callable[[], Awaitable[Object]]
Second = tuple[Proxy, KubeClient]


@pytest.fixture
def lease() -> str:
    """The name of this test's Lease."""
    return f"lease-{token_hex(4)}"


@pytest.fixture
def elect(api: KubeClient, namespace: str, lease: str) -> Elect:
    """Makes candidates for this test's Lease."""

    def made(
        identity: str, *, client: KubeClient = api, timing: LeaseTiming = FAST
    ) -> LeaderElection:
        return LeaderElection(
            client, namespace=namespace, name=lease, identity=identity, timing=timing
        )

    return made


@pytest.fixture
async def other(kubeconfig: Path) -> AsyncIterator[Second]:
    """A second proxy with a client of its own."""
    async with proxied(kubeconfig) as made:
        yield made


@asynccontextmanager
async def running(*candidates: LeaderElection) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def leading(candidate: LeaderElection, *, seconds: float = 30) -> float:
    """Wait until it leads; returns the seconds that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.wait_for(candidate.led.wait(), seconds)
    return loop.time() - began


@pytest.fixture
def spec(api: KubeClient, namespace: str, lease: str) -> Spec:
    """Reads the stored Lease's spec."""

    async def read() -> Object:
        found: Object = (await api.get(LEASES, namespace, lease))["spec"]
        return found

    return read


async def test_with_the_default_timing_a_killed_leader_is_replaced_within_10_seconds(
    elect: Elect, other: Second
) -> None:
    """Besides the time of the requests, which may be long on a busy machine."""
    proxy, client = other
    timing = LeaseTiming()
    assert timing.renew + timing.duration + timing.look < 10
    first, second = elect("first", client=client, timing=timing), elect("second", timing=timing)
    async with running(first):
        await leading(first)
        async with running(second):
            patches = len(proxy.sent("PATCH"))
            await until(
                lambda: len(proxy.sent("PATCH")) > patches,
                what="a renewal, which the candidate sees",
            )
            await asyncio.sleep(timing.look)
            proxy.is_hanging = True
            lost = asyncio.create_task(first.lost.wait())
            took = await leading(second)
            assert lost.done()
            assert not first.is_leader
            assert took > timing.duration - 2 * timing.renew
            lost.cancel()


async def test_a_stopped_leader_is_replaced_before_its_lease_expires(
    elect: Elect, spec: Spec
) -> None:
    first, second = elect("first", timing=LONG), elect("second", timing=LONG)
    async with running(first) as [task]:
        await leading(first)
        async with running(second):
            await asyncio.sleep(0.5)
            task.cancel()
            await leading(second)
            assert not first.is_leader
            assert (await spec())["leaseTransitions"] == 2


async def test_a_leader_gives_up_before_another_takes_over(
    elect: Elect, proxy: Proxy, other: Second
) -> None:
    """The API server does not answer the leader, whose clock has nothing to do with the
    candidate's."""
    their_proxy, client = other
    first, second = elect("first", client=client), elect("second")
    times: dict[str, float] = {}

    async def note(name: str, moment: Awaitable[object]) -> None:
        await moment
        times[name] = asyncio.get_running_loop().time()

    async with running(first):
        await leading(first)
        async with running(second):
            their_proxy.is_down = True
            await asyncio.gather(note("lost", first.lost.wait()), note("taken", second.led.wait()))
    assert times["lost"] < times["taken"]


async def test_a_renewal_whose_response_is_lost_does_not_end_leadership(
    elect: Elect, proxy: Proxy, spec: Spec
) -> None:
    candidate = elect("a")
    async with running(candidate):
        await leading(candidate)
        lost = asyncio.create_task(candidate.lost.wait())
        before = await spec()
        proxy.loses_responses = True
        patches = len(proxy.sent("PATCH"))
        await until(lambda: len(proxy.sent("PATCH")) > patches, what="a renewal")
        await asyncio.sleep(FAST.retry / 2)
        proxy.loses_responses = False
        await asyncio.sleep(FAST.duration)
        assert not lost.done()
        assert candidate.is_leader
        assert (await spec())["acquireTime"] == before["acquireTime"]
        assert (await spec())["renewTime"] > before["renewTime"]
        lost.cancel()


async def test_of_two_that_both_think_they_lead_only_one_can_renew(
    elect: Elect, api: KubeClient, namespace: str, lease: str, spec: Spec
) -> None:
    """The second takes a lease that the first believes to hold, as after a long pause of its
    process."""
    first, second = elect("first"), elect("second")
    async with running(first):
        await leading(first)
        await api.patch(LEASES, namespace, lease, {"spec": {"holderIdentity": None}})
        async with running(second):
            await until(lambda: second.is_leader or not first.is_leader, what="the conflict")
            await asyncio.sleep(FAST.renew * 2)
            assert [first.is_leader, second.is_leader].count(True) == 1
            assert (await spec())["holderIdentity"] == ("first" if first.is_leader else "second")


async def test_two_processes_with_the_same_identity_do_not_both_lead(elect: Elect) -> None:
    first, second = elect("same"), elect("same")
    async with running(first):
        await leading(first)
        async with running(second):
            await leading(second)
            await asyncio.wait_for(first.lost.wait(), 30)
            for _ in range(20):
                assert not (first.is_leader and second.is_leader)
                await asyncio.sleep(0.1)
            assert second.is_leader


async def test_a_deleted_lease_is_created_again_by_its_leader(
    elect: Elect, api: KubeClient, namespace: str, lease: str, spec: Spec
) -> None:
    candidate = elect("a")
    async with running(candidate):
        await leading(candidate)
        stored = await api.get(LEASES, namespace, lease)
        await api.delete(LEASES, namespace, lease, uid=stored["metadata"]["uid"])
        await asyncio.sleep(FAST.duration)
        assert candidate.is_leader
        assert (await spec())["holderIdentity"] == "a"


async def test_a_lease_that_others_annotate_still_expires(
    elect: Elect, other: Second, api: KubeClient, namespace: str, lease: str
) -> None:
    proxy, client = other
    first, second = elect("first", client=client), elect("second")
    async with running(first):
        await leading(first)
        async with running(second):
            proxy.is_hanging = True
            taken = asyncio.create_task(second.led.wait())
            async with asyncio.timeout(30):
                for count in itertools.count():
                    await api.patch(
                        LEASES,
                        namespace,
                        lease,
                        {"metadata": {"annotations": {"count": str(count)}}},
                    )
                    await asyncio.wait({taken}, timeout=0.1)
                    if taken.done():
                        break


async def test_work_runs_only_while_leading(elect: Elect, proxy: Proxy) -> None:
    candidate, log = elect("a"), []

    async def work() -> None:
        log.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    async with running(candidate):
        task = asyncio.create_task(candidate.while_leading(work))
        await until(lambda: log == ["began"], what="the work to begin")
        proxy.is_down = True
        await until(lambda: log == ["began", "ended"], what="the work to be cancelled")
        proxy.is_down = False
        await until(lambda: log == ["began", "ended", "began"], what="the work to begin again")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert log[-1] == "ended"


async def test_the_lease_is_released_only_after_the_work_has_ended(
    elect: Elect, spec: Spec
) -> None:
    candidate, holders = elect("a"), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            holders.append((await spec())["holderIdentity"])

    async with running(candidate) as [election]:
        task = asyncio.create_task(candidate.while_leading(work))
        await leading(candidate)
        await asyncio.sleep(0.1)
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert holders == ["a"]
    assert "holderIdentity" not in await spec()


async def test_an_error_of_the_work_reaches_the_caller(elect: Elect) -> None:
    async def work() -> None:
        raise LookupError("broken")

    candidate = elect("a")
    async with running(candidate):
        with pytest.raises(LookupError, match="broken"):
            await candidate.while_leading(work)
