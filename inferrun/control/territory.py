"""Which namespaces this installation serves: those that it is configured to, except those that another installation serves.

Two installations that serve the same runs would both start workflows for them and overwrite each other's labels and statuses.
Therefore an installation serves a namespace only while it holds its claim, a Lease that shim and worker renew:

- with a list of namespaces, the Lease `inferrun-installation` in each of them;
- otherwise that of kube-system. It names the namespaces that are left to installations that list them, and all service accounts may
  read it.

The second one refuses, reports it, and takes over as soon as the other one has not renewed its claim for 15 seconds. The
claim in a namespace can be written by its users, so it counts little: one that is deleted, or replaced while this installation
serves the namespace, is written again; if claims may not be read or written, there are none. What users do to theirs is of no
consequence for other namespaces. A process that could not renew its claim in time and finds another one ends, so that it forgets
everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from inferrun.kube.claims import CLUSTER_PLACE, FIX, NAME, Claim, ClaimTiming, Sightings, renewal
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, Invalid, KubeError, NotFound
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import LEASES, Object
from inferrun.timestamps import utc_now

logger = logging.getLogger(__name__)

PAGE: Final = 500

Gained = Callable[[str], None]
"""Called with the name of a namespace that is served from now on; empty: all that are served."""


@dataclass(frozen=True)
class Refusal:
    """A namespace that is not served because another installation serves it; empty: all."""

    namespace: str
    holder: str

    def __str__(self) -> str:
        where = f"namespace {self.namespace} is" if self.namespace else "all namespaces are"
        return (
            f"{where} served by the installation {self.holder!r} already; {FIX}: this one takes over within "
            f"{ClaimTiming().duration:.0f} s"
        )


Report = Callable[[Refusal], Awaitable[None]]


class ClaimLost(RuntimeError):
    """Another installation has taken over what this process served."""


class Territory:
    """Run it as one task. `namespace in territory` is whether that namespace is served."""

    def __init__(
        self,
        api: KubeClient,
        *,
        watched: Namespaces,
        installation: str,
        report: Report | None = None,
        timing: ClaimTiming | None = None,
    ) -> None:
        """`report` is called for each new refusal, to say so where users see it."""
        self._api = api
        self._report = report
        self._watched = watched
        self._installation = installation
        self._timing = timing or ClaimTiming()
        self._sightings = Sightings(own=installation, duration=self._timing.duration)
        self._held_at: dict[str, float] = {}
        """When this installation's claim was last known to be in place."""
        self._listed: set[str] = set()
        """Of the listed namespaces, those that are served."""
        self._is_open = False
        """Whether all namespaces are served, apart from exceptions."""
        self._excepted: frozenset[str] = frozenset()
        """Of all namespaces, those that another installation lists."""
        self._refusals: dict[str, Refusal] = {}
        self._unreported: list[Refusal] = []
        self._listeners: list[Gained] = []
        self._warned: set[str] = set()
        self._is_decided = False

    def __contains__(self, namespace: str) -> bool:
        if self._watched.are_listed:
            return namespace in self._listed
        return self._is_open and namespace not in self._excepted

    @property
    def refusals(self) -> str:
        """What is not served, and why; one line each."""
        return "".join(f"{self._refusals[place]}\n" for place in sorted(self._refusals))

    @property
    def is_ready(self) -> bool:
        """Whether this installation serves anything, as far as that depends on others."""
        return self._is_decided and (self._is_open or bool(self._listed))

    def subscribe(self, gained: Gained) -> None:
        """Call `gained` whenever a namespace is served from now on."""
        self._listeners.append(gained)

    async def run(self) -> None:
        """Renew the claims until cancelled. Raises ClaimLost."""
        while True:
            pause = self._timing.renew if await self._is_renewed() else self._timing.retry
            await asyncio.sleep(pause)

    async def _is_renewed(self) -> bool:
        try:
            is_whole = await (self._renew_listed() if self._watched.are_listed else self._in_time(self._claim_all()))
        except (KubeError, TimeoutError) as error:
            self._warn_of(error)
            return False
        self._is_decided = True
        while self._unreported and self._report is not None:
            await self._report(self._unreported.pop())
        return is_whole

    async def _in_time(self, claiming: Coroutine[None, None, None]) -> bool:
        async with asyncio.timeout(self._timing.request):
            await claiming
        return True

    async def _renew_listed(self) -> bool:
        """Renew the claims to the listed namespaces: whether all could be. Raises ClaimLost, and KubeError or TimeoutError if none
        could be.

        Users can make it impossible to write theirs. If the others were renewed, this process is alive and so is the API server,
        so no other installation has reason to take it.
        """
        names = self._watched.names
        claiming = (self._in_time(self._claim_listed(namespace)) for namespace in names)
        results = zip(names, await asyncio.gather(*claiming, return_exceptions=True), strict=True)
        errors = {namespace: result for namespace, result in results if isinstance(result, BaseException)}
        for error in sorted(errors.values(), key=_may_pass):
            if not _may_pass(error) or len(errors) == len(names):
                raise error
            self._warn_of(error)
        for namespace in errors.keys() & self._held_at.keys():
            self._held_at[namespace] = _now()
        return not errors

    async def _claim_all(self) -> None:
        """Claim all namespaces except those that others list."""
        others = await self._claims_of_others()
        is_continued = self._is_open
        if not self._is_open and (earlier := await self._earlier_claim()) is not None:
            others = {namespace: other for namespace, other in others.items() if namespace in earlier.excepted}
            is_continued = True
        other = await self._claim(CLUSTER_PLACE, excepted=frozenset(others))
        if other:
            self._refuse("", other)
            return
        if not is_continued:
            others = await self._claims_of_others()  # one that was written while this one was not visible yet
        gained = self._excepted - others.keys()
        self._excepted = frozenset(others)
        self._settle(others)
        if not self._is_open:
            self._is_open = True
            self._announce("")
        for namespace in gained:
            self._announce(namespace)

    async def _earlier_claim(self) -> Claim | None:
        """The claim that another process of this installation has renewed until now: what it serves is served."""
        with suppress(Forbidden):
            lease = await self._read(CLUSTER_PLACE)
            claim = Claim.of(lease) if lease is not None else Claim()
            is_current = not claim.is_older_than(self._timing.duration / 2, today=utc_now())
            return claim if claim.holder == self._installation and is_current else None
        return None

    async def _claims_of_others(self) -> dict[str, str]:
        """Who else serves which namespace. What this process serves already is not given to a claim that appears."""
        try:
            listed = self._api.items(LEASES, page_size=PAGE, fieldSelector=f"metadata.name={NAME}")
            stored = {item["metadata"]["namespace"]: Claim.of(item) async for item in listed}
        except Forbidden as error:
            self._warn("the claims to namespaces may not be listed", error=str(error)[:300])
            return {}
        found = {}
        for namespace in {*stored, *self._sightings.places()} - {CLUSTER_PLACE}:
            other = self._sightings.observe(namespace, stored.get(namespace), now=_now(), today=utc_now())
            if other and namespace in self:
                self._warn(
                    f"another claim to namespace {namespace} is ignored, because that is served already", holder=other
                )
            elif other:
                found[namespace] = other
        return found

    async def _claim_listed(self, namespace: str) -> None:
        if namespace not in self._listed and (other := await self._holder_of_all(namespace)):
            self._refuse(namespace, other)
            return
        other = await self._claim(namespace)
        if not other and namespace not in self._listed and (other := await self._holder_of_all(namespace)):
            await self._withdraw(namespace)
        if other:
            self._held_at.pop(namespace, None)
            self._refuse(namespace, other)
            return
        if self._refusals.pop(namespace, None) is not None:
            logger.info("a namespace is served now", extra={"served": namespace})
        if namespace not in self._listed:
            self._listed.add(namespace)
            self._announce(namespace)

    async def _holder_of_all(self, namespace: str) -> str:
        """The installation that serves all namespaces, this one included; empty if there is none."""
        try:
            claim = Claim.of(await self._api.get(LEASES, CLUSTER_PLACE, NAME))
        except (NotFound, Forbidden):
            return ""
        other = self._sightings.observe(CLUSTER_PLACE, claim, now=_now(), today=utc_now())
        return other if namespace not in claim.excepted else ""

    async def _claim(self, place: str, *, excepted: frozenset[str] = frozenset()) -> str:
        """Hold the claim to a place, or return who holds it. Raises ClaimLost if this process has held it."""
        try:
            lease = await self._read(place)
            claim = Claim.of(lease) if lease is not None else None
            other = self._sightings.observe(place, claim, now=_now(), today=utc_now())
            if other and not self._is_certain_of(place):
                if place in self._held_at:
                    raise ClaimLost(f"{Refusal(place, other)}")
                return other
            await self._keep(place, lease, excepted=excepted)
        except (Forbidden, Invalid, NotFound) as error:
            self._warn(
                f"the claim to {place} can be neither read nor written; it is served without", error=str(error)[:300]
            )
            self._held_at[place] = _now()
        return ""

    def _is_certain_of(self, place: str) -> bool:
        """Whether no installation can have taken the place yet: this one's claim was there a moment ago."""
        held_at = self._held_at.get(place)
        return held_at is not None and _now() - held_at < self._timing.duration / 2

    async def _read(self, place: str) -> Object | None:
        try:
            return await self._api.get(LEASES, place, NAME)
        except NotFound:
            return None

    async def _keep(self, place: str, lease: Object | None, *, excepted: frozenset[str]) -> None:
        """Renew the claim, unless another process of this installation has just done so."""
        claim, now = Claim.of(lease) if lease is not None else Claim(), _now()
        unchanged = self._sightings.unchanged(place, now=now)
        is_own = claim.holder == self._installation and claim.excepted == excepted
        if is_own and place in self._held_at and unchanged < self._timing.renew * 0.75:
            self._held_at[place] = now - unchanged
            return
        version = str(lease["metadata"]["resourceVersion"]) if lease is not None else None
        wanted = renewal(self._installation, excepted=excepted, now=utc_now())
        await self._store(place, wanted, version=version)
        self._sightings.observe(place, wanted, now=_now(), today=utc_now())
        self._held_at[place] = now

    async def _store(self, place: str, claim: Claim, *, version: str | None) -> None:
        body = claim.to_lease(version=version, duration=self._timing.duration)
        if version is None:
            await self._api.create(LEASES, place, body)
        else:
            await self._api.patch(LEASES, place, NAME, body)

    async def _withdraw(self, namespace: str) -> None:
        """Free the claim: an installation that serves all namespaces was faster."""
        with suppress(KubeError):
            lease = await self._read(namespace)
            if lease is not None and Claim.of(lease).holder == self._installation:
                await self._store(namespace, Claim(), version=str(lease["metadata"]["resourceVersion"]))

    def _refuse(self, namespace: str, holder: str) -> None:
        refusal = Refusal(namespace, holder)
        if self._refusals.get(namespace) != refusal:
            logger.warning(str(refusal), extra={"served": namespace, "holder": holder})
            self._unreported.append(refusal)
        self._refusals[namespace] = refusal

    def _settle(self, others: Mapping[str, str]) -> None:
        """Refuse what others hold, and forget earlier refusals."""
        for namespace in self._refusals.keys() - others.keys():
            del self._refusals[namespace]
        for namespace, holder in others.items():
            self._refuse(namespace, holder)

    def _announce(self, namespace: str) -> None:
        for gained in self._listeners:
            gained(namespace)

    def _warn_of(self, error: BaseException) -> None:
        self._warn(f"the claims to namespaces cannot be renewed: {type(error).__name__}", error=str(error)[:300])

    def _warn(self, message: str, **fields: str) -> None:
        """Once for each message."""
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message, extra=fields)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, KubeError | TimeoutError)


def _now() -> float:
    return asyncio.get_running_loop().time()
