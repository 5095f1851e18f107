"""Who serves a namespace if two installations are configured to, on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from secrets import token_hex

import pytest

from inferrun.control.territory import Territory
from inferrun.kube.claims import CLUSTER_PLACE, NAME, Claim, ClaimTiming
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError, NotFound
from inferrun.kube.namespaces import ALL, Namespaces
from inferrun.kube.objects import LEASES, NAMESPACES, Object
from tests.integration.shim.conftest import Until

TIMING = ClaimTiming(duration=10, renew=1)
SECONDS = 90


@dataclass
class Installed:
    """An installation that does nothing but claim."""

    territory: Territory
    task: asyncio.Task[None]
    gained: list[str] = field(default_factory=list)


@asynccontextmanager
async def installed(api: KubeClient, name: str, *watched: str) -> AsyncIterator[Installed]:
    territory = Territory(api, watched=Namespaces(watched), installation=f"{name}.uid", timing=TIMING)
    made = Installed(territory, asyncio.create_task(territory.run()))
    territory.subscribe(made.gained.append)
    try:
        yield made
        assert not made.task.done()
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


@pytest.fixture
async def places(api: KubeClient) -> AsyncIterator[tuple[str, str]]:
    """Two namespaces; afterwards nobody claims all of them."""
    made = [await api.create(NAMESPACES, None, {"metadata": {"name": f"claims-{token_hex(4)}"}}) for _ in range(2)]
    await forget_all(api)
    yield made[0]["metadata"]["name"], made[1]["metadata"]["name"]
    await forget_all(api)
    for item in made:
        await api.delete(NAMESPACES, "", item["metadata"]["name"], uid=item["metadata"]["uid"])


async def forget_all(api: KubeClient) -> None:
    """Delete all claims, also those of earlier tests."""
    for lease in (await api.list(LEASES, None, fieldSelector=f"metadata.name={NAME}"))["items"]:
        with suppress(NotFound):
            await api.delete(LEASES, lease["metadata"]["namespace"], NAME, uid=lease["metadata"]["uid"])


def serving(installation: Installed, *namespaces: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return all(namespace in installation.territory for namespace in namespaces)

    return check


def refusing(installation: Installed, holder: str, where: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        text = installation.territory.refusals
        return f"{where} served by the installation '{holder}.uid' already; set watchNamespace" in text

    return check


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "all"])
async def test_the_second_of_two_installations_refuses_and_takes_over_from_the_first(
    api: KubeClient, places: tuple[str, str], until: Until, *, is_listed: bool
) -> None:
    watched, where = ((places[0],), f"namespace {places[0]} is") if is_listed else ((), "all namespaces are")
    async with installed(api, "second", *watched) as second:
        second.task.cancel()  # it begins when the first one serves
        await asyncio.gather(second.task, return_exceptions=True)
        async with installed(api, "first", *watched) as first:
            await until(serving(first, places[0]), seconds=SECONDS)
            second.task = asyncio.create_task(second.territory.run())
            await until(refusing(second, "first", where), seconds=SECONDS)
            assert not second.territory.is_ready
            assert places[0] not in second.territory
            assert first.territory.is_ready
            assert first.territory.refusals == ""
        await until(serving(second, places[0]), seconds=SECONDS)
        assert second.territory.is_ready
        assert second.territory.refusals == ""
        assert second.gained == [places[0] if is_listed else ""]


async def test_a_namespace_is_refused_where_all_are_served_already(
    api: KubeClient, places: tuple[str, str], until: Until
) -> None:
    async with installed(api, "all") as first:
        await until(serving(first, *places), seconds=SECONDS)
        async with installed(api, "one", places[0]) as second:
            await until(refusing(second, "all", f"namespace {places[0]} is"), seconds=SECONDS)
            assert not second.territory.is_ready
            assert places[0] in first.territory


async def test_an_installation_of_all_namespaces_leaves_out_those_that_another_one_lists(
    api: KubeClient, places: tuple[str, str], until: Until
) -> None:
    async with installed(api, "all") as later:
        later.task.cancel()
        await asyncio.gather(later.task, return_exceptions=True)
        async with installed(api, "one", places[0]) as first:
            await until(serving(first, places[0]), seconds=SECONDS)
            later.task = asyncio.create_task(later.territory.run())
            await until(serving(later, places[1]), seconds=SECONDS)
            await until(refusing(later, "one", f"namespace {places[0]} is"), seconds=SECONDS)
            assert later.territory.is_ready
            assert places[0] not in later.territory
            async with installed(api, "one", places[0]) as restarted:  # its claim is its own, and left to it
                await until(serving(restarted, places[0]), seconds=SECONDS)
        await until(serving(later, *places), seconds=SECONDS)
        assert later.gained == ["", places[0]]


@pytest.mark.parametrize(
    ("deed", "is_listed"), [("delete", True), ("plant", True), ("plant", False)], ids=["delete", "plant", "plant-all"]
)
async def test_what_users_do_to_a_claim_in_their_namespace_changes_nothing(
    api: KubeClient, places: tuple[str, str], until: Until, deed: str, *, is_listed: bool
) -> None:
    async with installed(api, "real", *(places[:1] if is_listed else ())) as real:
        await until(serving(real, places[0]), seconds=SECONDS)
        if deed == "delete":
            lease = await api.get(LEASES, places[0], NAME)
            await api.delete(LEASES, places[0], NAME, uid=lease["metadata"]["uid"])
        else:
            await plant(api, places[0])

        held = places[0] if is_listed else CLUSTER_PLACE
        for _ in range(3):
            seen = (await claim_of(api, held)).renewed

            async def is_renewed(seen: str = seen) -> bool:
                claim = await claim_of(api, held)
                return claim.holder == "real.uid" and claim.renewed != seen

            await until(is_renewed, seconds=SECONDS)
            assert places[0] in real.territory
        assert real.territory.refusals == ""
        if is_listed:
            assert (await claim_of(api, places[0])).holder == "real.uid"


async def plant(api: KubeClient, namespace: str) -> None:
    body: Object = {"spec": {"holderIdentity": "planted.uid", "renewTime": "2999-01-01T00:00:00.000000Z"}}
    try:
        await api.patch(LEASES, namespace, NAME, body)
    except NotFound:
        await api.create(LEASES, namespace, {"metadata": {"name": NAME}, **body})


async def claim_of(api: KubeClient, namespace: str) -> Claim:
    try:
        return Claim.of(await api.get(LEASES, namespace, NAME))
    except KubeError:
        return Claim()


async def test_a_planted_claim_that_is_not_renewed_delays_a_start_but_does_not_prevent_it(
    api: KubeClient, places: tuple[str, str], until: Until
) -> None:
    await plant(api, places[0])
    async with installed(api, "real", *places) as real:
        await until(serving(real, places[1]), seconds=SECONDS)
        await until(serving(real, places[0]), seconds=SECONDS)


@pytest.mark.parametrize("writers", [1, 8])
async def test_a_claim_that_users_write_all_the_time_takes_no_namespace_away(
    api: KubeClient, places: tuple[str, str], until: Until, writers: int
) -> None:
    """Those of the other namespace have nothing to do with it, and the process goes on."""
    async with installed(api, "real", *places) as real:
        await until(serving(real, *places), seconds=SECONDS)
        attackers = [asyncio.create_task(overwrite(api, places[0])) for _ in range(writers)]
        try:
            await renewed(api, places[1], until, times=20)  # longer than a claim lasts
            assert all(place in real.territory for place in places)
            assert not real.task.done()
        finally:
            for one in attackers:
                one.cancel()
            await asyncio.gather(*attackers, return_exceptions=True)


async def overwrite(api: KubeClient, namespace: str) -> None:
    while True:
        with suppress(KubeError):
            await api.patch(LEASES, namespace, NAME, {"spec": {"holderIdentity": f"planted-{token_hex(4)}"}})


async def renewed(api: KubeClient, namespace: str, until: Until, *, times: int) -> None:
    """Return after the installation has renewed a claim so many times."""
    for _ in range(times):
        seen = (await claim_of(api, namespace)).renewed

        async def is_renewed(seen: str = seen) -> bool:
            return (await claim_of(api, namespace)).renewed != seen

        await until(is_renewed, seconds=SECONDS)


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "afterwards"])
async def test_a_claim_that_users_make_too_large_to_be_written_takes_no_namespace_away(
    api: KubeClient, places: tuple[str, str], until: Until, *, is_first: bool
) -> None:
    if is_first:
        await plant(api, places[0])
        await fill(api, places[0])
    async with installed(api, "real", *places) as real:
        await until(serving(real, *places[is_first:]), seconds=SECONDS)
        if not is_first:
            await fill(api, places[0])
        await renewed(api, places[1], until, times=20)
        assert all(place in real.territory for place in places[is_first:])
        assert real.territory.is_ready
        assert len(real.territory.refusals) < 1000


async def fill(api: KubeClient, namespace: str) -> None:
    """Add labels to the Lease until it is as large as the API server can store, with the shortest of holders."""
    await api.patch(LEASES, namespace, NAME, {"spec": {"holderIdentity": "p", "renewTime": None}})
    number = 0
    for count, size in ((4096, 63), (1024, 63), (256, 63), (64, 63), (16, 63), (4, 63), (1, 63), (1, 16), (1, 0)):
        with suppress(KubeError):
            while True:
                labels = {f"k{at}": "x" * size for at in range(number, number + count)}
                await api.patch(
                    LEASES, namespace, NAME, {"metadata": {"labels": labels}, "spec": {"holderIdentity": "p"}}
                )
                number += count


async def test_a_claim_that_was_not_renewed_for_long_delays_nothing(
    api: KubeClient, places: tuple[str, str], until: Until
) -> None:
    lease: Object = {"spec": {"holderIdentity": "former.uid", "renewTime": "2020-01-01T00:00:00.000000Z"}}
    await api.create(LEASES, places[0], {"metadata": {"name": NAME}, **lease})
    async with installed(api, "real", places[0]) as real:
        await until(serving(real, places[0]), seconds=SECONDS)
        assert real.gained == [places[0]]


async def test_two_processes_of_one_installation_share_its_claim(
    api: KubeClient, places: tuple[str, str], until: Until
) -> None:
    async with installed(api, "same", *places) as shim, installed(api, "same", *places) as worker:
        await until(serving(shim, *places), seconds=SECONDS)
        await until(serving(worker, *places), seconds=SECONDS)
        assert shim.territory.refusals == worker.territory.refusals == ""


def test_all_namespaces_are_served_by_default() -> None:
    assert "any" in ALL
