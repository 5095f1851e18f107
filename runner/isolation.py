"""Finds the record that ends the server's process, or occupies it for too long, by sending it while nothing else is in flight.

A record is blamed only if it has no response when it is sent alone, three times, or seven if connections are lost and the server
is not gone in between. Before each of these times the server answers another record, the example. So a record that only waited
behind a slow one is not blamed. Others may end or occupy the server as well, such as another Pod of the run or another run: they
send their own suspects when the server is back, at the same time as this one. So before each time but the first the example is
sent a random number of times. If it is not answered either, that time is repeated.

Each loss may cost the restart of a process, or the time that a response may take. So a batch is divided into many parts at once.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, Results
from runner.attempts import Attempts
from runner.doubt import Doubt
from runner.retries import retried
from runner.tuned_slots import TunedSlots

_log = logging.getLogger(__name__)

PARTS: Final = 32
"""Parts of a batch: with 1024 records, two losses find the record, and 64 requests."""

_CONFIRMATIONS, _MORE_CONFIRMATIONS = 2, 6
"""Losses after the first one, alone. More if the server answers at once after one of them: then one of several processes ended,
or connections are lost at random."""

_FEWEST, _FEWEST_IF_BUSY, _MOST = 2, 8, 16
"""Examples before a confirmation. More if the record was rejected for overload, such as 503: a proxy rejects requests to a server
that has ended, and an overloaded server rejects some at random."""

_UNSETTLED: Final = 8
"""Examples without a response before a confirmation: then it is the server that ends, whatever it is sent."""

_CANDIDATES: Final = 16
"""Records that are lost before any has been answered: then the server answers none."""

_HOPELESS: Final = 4
"""Records alone that are lost, each of them again later, before any has been answered: the same."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of a part of a batch."""

    batch: Batch
    found: Results | Fault | None
    """Its results, the fault for which its only record is to blame, or None if it should be sent as usual."""


class Isolation:
    """Sends suspects, one at a time."""

    def __init__(
        self,
        predict: Callable[[Batch], Awaitable[Results]],
        slots: TunedSlots,
        doubt: Doubt,
        *,
        budget: Callable[[], float],
        first_wait: Callable[[], float],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`predict` makes one try; `budget` is how long a server may take to restart, in seconds.

        `report` is told what is sent alone, for people, and an empty text when that has ended.
        """
        self._predict = predict
        self._slots = slots
        self._doubt = doubt
        self._budget = budget
        self._first_wait = first_wait
        self._report = report
        self._turn = asyncio.Lock()
        self.findings = 0
        """How many times a record, or the size of a batch, was found to be the reason why requests were lost."""

        self._hopeless = 0
        self._is_answering = False

    async def resolve(self, batch: Batch, fault: Fault, attempts: Attempts, *, patience: float) -> list[Part]:
        """Send a batch, dividing it if it is lost. Raises Fault if the server does not come back.

        If no record has ever been answered, one must be within `patience` seconds.
        If another batch is found to be guilty in the meantime, or too large, this one is sent as usual.
        """
        findings = self.findings
        async with self._turn:
            if findings != self.findings:
                return [Part(batch, None)]
            _log.info(
                "requests with these records get no response, so they are sent while no other request is in flight",
                extra={"first": batch.first, "records": len(batch), "detail": str(fault)},
            )
            self._report(_note_of(batch))
            try:
                async with self._slots.alone():
                    return await self._found(batch, attempts, patience=patience)
            finally:
                self._report("")

    async def confirm(self) -> None:
        """Send the example. Raises a transient Fault if it is not answered: it was before, so it is not to blame."""
        example = self._doubt.example
        if example is None:
            return
        try:
            await self._predict(example)
        except Fault as fault:
            if fault.is_transient:
                raise
            raise Fault(fault.error, kind=FaultKind.UNAVAILABLE) from fault

    async def _found(self, batch: Batch, attempts: Attempts, *, patience: float) -> list[Part]:
        self._is_answering = False
        if self._doubt.example is None:
            parts = await self._parts_without_example(batch, attempts, patience=patience)
        else:
            parts = await self._tried(batch, attempts)
        await self._wait_for_server()  # what was lost with the batch is sent again now
        return parts

    async def _tried(self, batch: Batch, attempts: Attempts) -> list[Part]:
        await self._wait_for_server()
        found = await self._sent(batch, attempts)
        if not _is_loss(found):
            return [Part(batch, found if isinstance(found, Results) else None)]
        if len(batch) > 1:
            return await self._divided(batch, attempts)
        confirmations, needed = 0, _CONFIRMATIONS
        while confirmations < needed:
            kind = found.kind if isinstance(found, Fault) else None
            if await self._example_fault(times=1) is None:
                self._is_answering = True
                if kind is not FaultKind.TIMEOUT:
                    needed = _MORE_CONFIRMATIONS
            await self._send_examples(_FEWEST_IF_BUSY if kind is FaultKind.BUSY else _FEWEST)
            found = await self._sent(batch, attempts)
            if not _is_loss(found):
                return [Part(batch, found if isinstance(found, Results) else None)]
            confirmations += 1
        self.findings += 1
        _log.info("a record gets no response, and others do", extra={"index": batch.first})
        return [Part(batch, found)]

    async def _divided(self, batch: Batch, attempts: Attempts) -> list[Part]:
        size = -(-len(batch) // PARTS)
        parts: list[Part] = []
        for start in range(0, len(batch), size):
            parts += await self._tried(batch.part(start, start + size), attempts)
        self.findings += all(isinstance(part.found, Results) for part in parts)
        return parts

    async def _sent(self, batch: Batch, attempts: Attempts) -> Results | Fault:
        try:
            results = await self._predict(batch)
        except Fault as fault:
            attempts.add(batch, is_sent=fault.was_sent)
            self._is_answering = not fault.is_transient
            return fault
        attempts.add(batch)
        self._doubt.resolve(batch, results)
        self._is_answering = True
        return results

    async def _wait_for_server(self) -> None:
        """Wait until the server answers the example, unless it has just answered something."""
        if not self._is_answering:
            await retried(self.confirm, budget=self._budget(), first_wait=self._first_wait)
            self._is_answering = True

    async def _send_examples(self, fewest: int) -> None:
        """Send the example several times, until it is answered each time."""
        for _ in range(_UNSETTLED):
            await self._wait_for_server()
            fault = await self._example_fault(times=random.randint(fewest, _MOST))  # noqa: S311  not for security
            if fault is None:
                return
            self._is_answering = False
        raise Fault(InferenceError(f"{fault}; records that it answered before are lost as well"), kind=FaultKind.FAILED)

    async def _example_fault(self, *, times: int) -> Fault | None:
        try:
            for _ in range(times):
                await self.confirm()
        except Fault as fault:
            return fault
        return None

    async def _parts_without_example(self, batch: Batch, attempts: Attempts, *, patience: float) -> list[Part]:
        """Send single records until one is answered. It becomes the example, and the batch is sent again: the server may just have
        come back.

        A record alone that is not answered is sent as usual later, because another one may be answered in the meantime.
        """
        lost = 0
        most = min(_CANDIDATES, 2 * len(batch))

        async def send_next() -> None:
            nonlocal lost
            at = lost * len(batch) // most % len(batch)
            found = await self._sent(batch.part(at, at + 1), attempts)
            if isinstance(found, Results):
                return
            lost += found.was_sent
            kind = FaultKind.UNAVAILABLE if lost < most else FaultKind.FAILED
            raise Fault(found.error, kind=kind, retry_after=found.retry_after) from found

        try:
            await retried(send_next, budget=patience, first_wait=self._first_wait)
        except Fault:
            self._hopeless += 1
            if len(batch) > 1 or self._hopeless >= _HOPELESS:
                raise
        return await self._tried(batch, attempts) if len(batch) > 1 else [Part(batch, None)]


def _note_of(batch: Batch) -> str:
    last = batch.first + len(batch) - 1
    if last == batch.first:
        return f"requests with record {last} get no response, so it is sent alone, and the others wait"
    return f"requests with records {batch.first} to {last} get no response, so one of them is searched for, and the others wait"


def _is_loss(found: Results | Fault) -> bool:
    return isinstance(found, Fault) and found.is_transient and found.retry_after is None
