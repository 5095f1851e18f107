"""Leader election over one `coordination.k8s.io/v1` Lease, by the rules of client-go's leaderelection.

At most one candidate leads as long as clocks run at about the same rate; their absolute values do not matter. A leader that
cannot renew stops leading before another may take over. Every write is conditional on the resourceVersion that was read, so
of two that write at once only one succeeds. If someone deletes the Lease, two may lead for up to one renewal period.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from control.lease_record import Candidate, LeaseRecord, LeaseTiming, next_term, timestamp
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, KubeError, NotFound
from inferrun.kube.objects import LEASES, Object

logger = logging.getLogger(__name__)


class LeaderElection:
    """One candidate; `run` it as one task, and the work of a leader with `while_leading` as another.

    `identity` must differ between processes that run at the same time; it may be the same after a restart.
    """

    def __init__(
        self, api: KubeClient, *, namespace: str, name: str, identity: str, timing: LeaseTiming | None = None
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._timing = timing or LeaseTiming()
        self._candidate = Candidate(identity=identity)
        self._record = LeaseRecord()
        self._term = LeaseRecord()
        self._version: str | None = None
        self._observed_at = 0.0
        self._leads_until = 0.0
        self._led = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._warned: type[Exception] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads now; also correct if the event loop was blocked past the deadline."""
        return self._led.is_set() and asyncio.get_running_loop().time() < self._leads_until

    async def wait_until_leading(self) -> None:
        """Return as soon as this candidate leads."""
        await self._led.wait()

    async def wait_until_lost(self) -> None:
        """Return as soon as this candidate does not lead."""
        await self._lost.wait()

    async def while_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this candidate leads and cancel it when it no longer does, until cancelled.

        Raises what `work` raises. Work that returns is not started again in the same term. `run` releases the lease only
        after cancelled work has ended.
        """
        while True:
            await self.wait_until_leading()
            self._idle.clear()
            try:
                await self._work_until_lost(work)
            finally:
                self._idle.set()

    async def _work_until_lost(self, work: Callable[[], Awaitable[None]]) -> None:
        working, lost = asyncio.ensure_future(work()), asyncio.create_task(self.wait_until_lost())
        try:
            await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                await lost
        finally:
            lost.cancel()
            working.cancel()
            await asyncio.wait((working, lost))

    async def run(self) -> None:
        """Take part in the election until cancelled; then release the lease if this candidate holds it."""
        try:
            while True:
                await self._acquire()
                await self._keep()
        finally:
            self._stop_leading("stopped")
            if self._candidate.term:
                await self._release()

    async def _acquire(self) -> None:
        """Return once this candidate leads."""
        while True:
            wait = self._timing.look
            try:
                async with asyncio.timeout(self._timing.request):
                    wait = min(wait, await self._try_to_acquire())
            except (KubeError, TimeoutError) as error:
                self._warn("cannot take part in the election", error)
            if self.is_leader:
                return
            await asyncio.sleep(wait)

    async def _try_to_acquire(self) -> float:
        """Take the lease if it is free; return the seconds until the next attempt."""
        await self._observe()
        unchanged = asyncio.get_running_loop().time() - self._observed_at
        wait = self._candidate.wait_for(self._record, unchanged=unchanged, duration=self._timing.duration)
        if wait > 0:
            self._candidate = replace(self._candidate, is_new=False)
            return wait
        identity, duration = self._candidate.identity, self._timing.duration
        wanted = next_term(self._record, identity=identity, duration=duration, now=datetime.now(UTC))
        # Noted before the write: if its response is lost, the lease is recognized as this process's own.
        self._candidate = replace(self._candidate, term=wanted.acquired)
        with suppress(Conflict):  # another candidate was faster
            await self._write(wanted)
            self._start_leading(wanted)
        return self._timing.look

    async def _keep(self) -> None:
        """Renew until leadership is lost."""
        pause = self._timing.renew
        try:
            async with asyncio.timeout_at(self._leads_until) as deadline:
                while self._led.is_set():
                    await asyncio.sleep(pause)
                    pause = self._timing.renew if await self._is_renewed() else self._timing.retry
                    deadline.reschedule(self._leads_until)
        except TimeoutError:
            self._stop_leading("not renewed in time")

    async def _is_renewed(self) -> bool:
        """Renew once and return whether that worked. If another candidate holds the lease, stop leading."""
        try:
            async with asyncio.timeout(self._timing.request):
                await self._renew()
        except (KubeError, TimeoutError) as error:
            self._warn("cannot renew the lease", error)
            return False
        self._warned = None
        return True

    async def _renew(self) -> None:
        renewed = replace(self._term, renewed=timestamp(datetime.now(UTC)))
        try:
            await self._write(renewed)
        except (Conflict, NotFound):
            # Another candidate wrote, the Lease was deleted or annotated, or the response to our last renewal was lost.
            await self._observe()
            if self._version is not None and not self._holds_lease:
                self._stop_leading("another candidate took the lease")
                return
            await self._write(renewed)

    async def _release(self) -> None:
        """Let another candidate take over at once. A failure is only logged: the lease expires by itself."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.look):
                    await self._idle.wait()
            async with asyncio.timeout(self._timing.request):
                await self._observe()
                while self._holds_lease:
                    with suppress(Conflict):  # with a renewal that was in flight when this task was cancelled
                        await self._write(replace(self._record, holder=""))
                        return
                    await self._observe()
        except (KubeError, TimeoutError) as error:
            self._warn("cannot release the lease", error)

    @property
    def _holds_lease(self) -> bool:
        """Whether the record as last observed is of this process's latest term."""
        return (self._record.holder, self._record.acquired) == (self._candidate.identity, self._candidate.term)

    async def _observe(self) -> None:
        try:
            self._note(await self._api.get(LEASES, self._namespace, self._name))
        except NotFound:
            self._record, self._version = LeaseRecord(), None

    async def _write(self, record: LeaseRecord) -> None:
        """Write on condition that the Lease is as last observed. Raises Conflict otherwise."""
        sent = asyncio.get_running_loop().time()
        if self._version is None:
            body: Object = {"metadata": {"name": self._name}, "spec": record.to_spec()}
            lease = await self._api.create(LEASES, self._namespace, body)
        else:
            body = {"metadata": {"resourceVersion": self._version}, "spec": record.to_spec()}
            lease = await self._api.patch(LEASES, self._namespace, self._name, body)
        self._note(lease)
        self._leads_until = sent + self._timing.give_up

    def _note(self, lease: Object) -> None:
        record = LeaseRecord.of(lease)
        if record != self._record:
            self._record, self._observed_at = record, asyncio.get_running_loop().time()
        self._version = str(lease["metadata"]["resourceVersion"])

    def _start_leading(self, term: LeaseRecord) -> None:
        self._candidate = replace(self._candidate, is_new=False)
        self._term = term
        self._warned = None
        self._lost.clear()
        self._led.set()
        logger.info("leads", extra=self._fields())

    def _stop_leading(self, reason: str) -> None:
        if self._led.is_set():
            self._led.clear()
            self._lost.set()
            logger.info("no longer leads", extra={**self._fields(), "reason": reason})

    def _warn(self, message: str, error: Exception) -> None:
        """Once for each kind of error in a row: the attempts follow each other closely."""
        if type(error) is not self._warned:
            logger.warning(message, extra={**self._fields(), "error": repr(error)[:500]})
            self._warned = type(error)

    def _fields(self) -> dict[str, str]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self._candidate.identity}
