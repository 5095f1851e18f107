"""Leader election over one `coordination.k8s.io/v1` Lease, by the rules of client-go's
leaderelection.

At most one candidate leads as long as clocks run at about the same rate; their absolute values do
not matter: the times in a Lease are for people, and a candidate measures with its own monotonic
clock how long the Lease has not changed. A leader that cannot renew stops leading before another
may take over. Every write is conditional on the resourceVersion that was read, so of two that write
at once only one succeeds. If someone deletes the Lease, two may lead for up to one renewal period.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, KubeError, NotFound
from inferrun.kube.objects import LEASES, Object, spec_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LeaseTiming:
    """Seconds. With these defaults a killed leader is replaced within 8 s and a stopped one within
    1 s: the ends that it did not report are to be in the statuses within 10 s, on a busy machine,
    too.
    """

    duration: int = 7
    """How long a candidate waits after the Lease last changed. Must exceed `give_up` by more than a
    slow request takes."""
    renew: float = 1.5
    """How often the leader renews."""
    give_up: float = 5.0
    """How long after sending its last successful renewal a leader stops leading: before anyone else
    may take over."""
    look: float = 0.5
    """How often a candidate reads the Lease; a change is noticed this late, so takeover takes up to
    `duration + look`."""
    request: float = 2.0
    """The longest that one request may take: less than `give_up`, so that a dead connection is
    replaced in time."""
    retry: float = 0.5
    """The pause after a renewal that failed."""

    def __post_init__(self) -> None:
        if not self.renew < self.give_up < self.duration:
            raise ValueError(
                f"needs renew < give_up < duration, not {self.renew}, {self.give_up}, {self.duration}"
            )


def seconds_until_free(
    spec: Object, *, identity: str, term: str, unchanged: float, duration: int
) -> float:
    """Seconds until `identity` may take a Lease with this spec, which it has seen for `unchanged`
    seconds.

    `term` is the acquireTime of the candidate's latest term, empty before the first; `duration` is
    for a Lease without one. A released Lease is free at once. So is one held by this identity if
    the process has been restarted, or if the term is its own. Another process under the same
    identity, which should not exist, has to be waited for like any other.
    """
    holder = spec.get("holderIdentity")
    if not holder or (holder == identity and term in ("", spec.get("acquireTime"))):
        return 0.0
    return max(0.0, (spec.get("leaseDurationSeconds") or duration) - unchanged)


class LeaderElection:
    """One candidate; `run` it as one task, and the work of a leader with `while_leading` as
    another.

    `identity` must differ between processes that run at the same time; it may be the same after a
    restart.
    """

    def __init__(
        self,
        api: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._term = ""
        self._spec: Object = {}
        self._version: str | None = None
        self._observed_at = 0.0
        self._leads_until = 0.0
        self.led = asyncio.Event()
        """Set while this candidate leads."""
        self.lost = asyncio.Event()
        """Set while it does not."""
        self.lost.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._warned: type[Exception] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads now; also correct if the event loop was blocked past the
        deadline."""
        return self.led.is_set() and asyncio.get_running_loop().time() < self._leads_until

    async def while_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this candidate leads and cancel it when it no longer does, until
        cancelled.

        Raises what `work` raises. Work that returns is not started again in the same term. `run`
        releases the Lease only after cancelled work has ended.
        """
        while True:
            await self.led.wait()
            self._idle.clear()
            working, lost = asyncio.ensure_future(work()), asyncio.create_task(self.lost.wait())
            try:
                await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    await working
                    await lost
            finally:
                lost.cancel()
                working.cancel()
                await asyncio.wait((working, lost))
                self._idle.set()

    async def run(self) -> None:
        """Take part in the election until cancelled; then release the Lease if this candidate holds
        it."""
        try:
            while True:
                wait = self._timing.look
                try:
                    async with asyncio.timeout(self._timing.request):
                        wait = min(wait, await self._try_to_acquire())
                except Exception as error:  # noqa: BLE001 -- anybody may edit a Lease
                    self._warn("cannot take part in the election", error)
                await (self._keep() if self.is_leader else asyncio.sleep(wait))
        finally:
            self._stop_leading("stopped")
            if self._term:
                await self._release()

    async def _try_to_acquire(self) -> float:
        """Take the Lease if it is free; return the seconds until the next attempt."""
        await self._observe()
        unchanged = asyncio.get_running_loop().time() - self._observed_at
        duration = self._timing.duration
        wait = seconds_until_free(
            self._spec,
            identity=self._identity,
            term=self._term,
            unchanged=unchanged,
            duration=duration,
        )
        if wait > 0:
            return wait
        moment = _now()
        term = {
            "holderIdentity": self._identity,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseDurationSeconds": duration,
            "leaseTransitions": (self._spec.get("leaseTransitions") or 0)
            + (self._spec.get("holderIdentity") != self._identity),
        }
        # Noted before the write: if its response is lost, the Lease is recognized as this process's
        # own.
        before, self._term = self._term, moment
        try:
            await self._write(term)
        except Conflict:  # another candidate was faster
            self._term = before
            return self._timing.look
        self._warned = None
        self.lost.clear()
        self.led.set()
        logger.info("leads", extra=self._fields())
        return self._timing.look

    async def _keep(self) -> None:
        pause = self._timing.renew
        try:
            async with asyncio.timeout_at(self._leads_until) as deadline:
                while self.led.is_set():
                    await asyncio.sleep(pause)
                    pause = self._timing.renew
                    try:
                        async with asyncio.timeout(self._timing.request):
                            await self._renew()
                        self._warned = None
                    except Exception as error:  # noqa: BLE001 -- as above
                        self._warn("cannot renew the lease", error)
                        pause = self._timing.retry
                    deadline.reschedule(self._leads_until)
        except TimeoutError:
            self._stop_leading("not renewed in time")

    async def _renew(self) -> None:
        """Renew once. If another candidate holds the Lease, stop leading."""
        term = {"holderIdentity": self._identity, "acquireTime": self._term}
        renewed = {
            **self._spec,
            **term,
            "renewTime": _now(),
            "leaseDurationSeconds": self._timing.duration,
        }
        try:
            await self._write(renewed)
        except (Conflict, NotFound):
            # Another candidate wrote, the Lease was deleted or annotated, or the response to our
            # last renewal was lost.
            await self._observe()
            if self._version is not None and not self._holds_lease:
                self._stop_leading("another candidate took the lease")
                return
            await self._write(renewed)

    async def _release(self) -> None:
        """Let another candidate take over at once. A failure is only logged: the Lease expires by
        itself."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.look):
                    await self._idle.wait()
            async with asyncio.timeout(self._timing.request):
                await self._observe()
                while self._holds_lease:
                    # with a renewal that was in flight when this task was cancelled
                    with suppress(Conflict):
                        await self._write({"holderIdentity": None})
                        return
                    await self._observe()
        except (KubeError, TimeoutError) as error:
            self._warn("cannot release the lease", error)

    @property
    def _holds_lease(self) -> bool:
        """Whether the Lease as last observed is of this process's latest term."""
        return (self._spec.get("holderIdentity"), self._spec.get("acquireTime")) == (
            self._identity,
            self._term,
        )

    async def _observe(self) -> None:
        try:
            self._note(await self._api.get(LEASES, self._namespace, self._name))
        except NotFound:
            self._spec, self._version = {}, None

    async def _write(self, spec: Object) -> None:
        """Write on condition that the Lease is as last observed. Raises Conflict otherwise."""
        sent = asyncio.get_running_loop().time()
        if self._version is None:
            body: Object = {"metadata": {"name": self._name}, "spec": spec}
            lease = await self._api.create(LEASES, self._namespace, body)
        else:
            body = {"metadata": {"resourceVersion": self._version}, "spec": spec}
            lease = await self._api.patch(LEASES, self._namespace, self._name, body)
        self._note(lease)
        self._leads_until = sent + self._timing.give_up

    def _note(self, lease: Object) -> None:
        """Remember the Lease, and when its spec changed: what others write into its metadata does
        not keep it from expiring."""
        spec = spec_of(lease)
        if spec != self._spec:
            self._spec, self._observed_at = spec, asyncio.get_running_loop().time()
        self._version = str(lease["metadata"]["resourceVersion"])

    def _stop_leading(self, reason: str) -> None:
        if self.led.is_set():
            self.led.clear()
            self.lost.set()
            logger.info("no longer leads", extra={**self._fields(), "reason": reason})

    def _warn(self, message: str, error: Exception) -> None:
        """Once for each kind of error in a row: the attempts follow each other closely."""
        if type(error) is not self._warned:
            logger.warning(message, extra={**self._fields(), "error": repr(error)[:500]})
            self._warned = type(error)

    def _fields(self) -> dict[str, str]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self._identity}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
