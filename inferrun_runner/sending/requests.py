"""Sends single requests: with a slot and room for the predictions, or while nothing else is in
flight.

A request is tried once; what follows a failure is decided elsewhere. Each request teaches the
slots, the size of the next requests and what is known of the server.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from inferrun.formats.record_errors import NOT_SENT
from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    Limits,
    MixedBatch,
    ModelProtocol,
    Records,
    Results,
)
from inferrun_runner.network.retries import Retries, backoff, first_wait_for
from inferrun_runner.network.spans import request_span
from inferrun_runner.sending.batch_sizer import BatchSizer
from inferrun_runner.sending.concurrency import Ticket
from inferrun_runner.sending.next_step import (
    BREAKERS,
    TOGETHER_SECONDS,
    BatchPart,
    Server,
    is_refusal,
)
from inferrun_runner.sending.reorder_window import ReorderWindow
from inferrun_runner.sending.slots import Slots

_log = logging.getLogger(__name__)

_FEWEST_EXAMPLES, _MOST_EXAMPLES = 2, 16
"""Examples that are answered in a row before a record that was lost is sent alone again: a random
number, because another Pod may send a record that ends the server whenever it is back."""

_CLOSING: Final = 3
"""Examples that are answered in a row before others are sent after a server failed and admitted
nothing: a circuit breaker that is half open closes after as many (vllm-router 0.1.17, sglang-router
0.3.2, smg 1.13.0), and opens again if one fails."""

_LONGEST_PAUSE: Final = 2.0
"""Seconds between two requests of which one is sent at a time, because everything waits for them,
and of a pause after which a server is asked again that cannot be reached."""

_FIRST: Final = -1
"""Priority of a request with more records than any before: until it is answered, the others have
fewer."""

_CANDIDATES: Final = 16
"""Records that are lost before any has been answered: then the server answers none."""

_SMOOTHING: Final = 0.2
"""Weight of the latest request in the moving average of the requests' durations."""


class Requests:
    """The requests of one run to its model server."""

    def __init__(
        self,
        model: ModelProtocol,
        window: ReorderWindow,
        *,
        limits: Limits,
        on_note: Callable[[str], None],
    ) -> None:
        """`on_note` is called with the reason why requests are not sent as usual, for people, and
        with "" when they are."""
        self._model = model
        self._groups_of = model.abilities.groups_of
        self._window = window
        self._on_note = on_note
        maximum = min(limits.batch_rows, model.max_records or limits.batch_rows)
        self.sizer = BatchSizer(maximum=maximum, target_seconds=limits.request_seconds)
        self.slots = Slots(limits)
        self.server = Server(retry_seconds=limits.retry_seconds)
        self.ended = self.failed = 0
        """Number of requests that have ended, and of those that failed."""

        self.seconds = 0.0
        """Time that they took together."""

        self.sent_bytes = self.received_bytes = 0
        """Memory of the records that they sent, and of the predictions that came back."""

        self._duration: float | None = None
        self._searching = asyncio.Lock()
        self._candidates: list[Batch] = []
        """Records without a response before any has had one."""

        self._recovering = asyncio.Lock()
        self._unreached = self._pauses = 0
        """Requests that could not be sent, and the pauses after them, since the latest answer."""

        self._in_flight = set[object]()
        self._settling = 0
        self._has_ended = asyncio.Event()
        self._refused = set[BatchPart]()
        """What is sent again because it had no response."""

        self._none_is_refused = asyncio.Event()
        self._none_is_refused.set()

    @property
    def first_wait(self) -> float:
        """Seconds before the first retry."""
        return first_wait_for(self._duration)

    def groups_of(self, records: Records) -> Sequence[Sequence[int]]:
        """Return the positions of the records that may be in one request, for each request."""
        return self._groups_of(records) if self._groups_of else [range(len(records))]

    async def send(self, part: BatchPart) -> Results:
        """Send a part when it has a slot and there is room for its predictions. Raises Fault."""
        batch = part.batch
        if len(batch) > self.sizer.most:
            text = f"the server does not accept requests with {len(batch)} records"
            raise Fault(InferenceError(text), kind=FaultKind.TOO_LARGE, was_sent=False)
        while True:
            await self._window.wait_until_sendable(batch)
            self.slots.fit(self._window.mean_bytes)
            ticket = await self.slots.acquire(
                _FIRST if self.sizer.is_trial(len(batch)) else batch.first
            )
            try:
                if self._window.is_sendable(batch):
                    self._window.note_sent(batch)
                    part.sent_at = asyncio.get_running_loop().time()
                    return await self._predict(batch, ticket)
            finally:
                self.slots.release()

    async def send_example(self, example: Batch, *, priority: int) -> None:
        """Send the example. Raises a transient Fault if it fails: it succeeded before, so the
        server is the reason."""
        await self.slots.acquire(priority)
        try:
            await self._predict(example)
        except Fault as fault:
            self.server.example_failed_at = asyncio.get_running_loop().time()
            kind = fault.kind if fault.is_transient else FaultKind.UNAVAILABLE
            raise Fault(
                fault.error, kind=kind, retry_after=fault.retry_after, was_sent=False
            ) from fault
        finally:
            self.slots.release()

    async def confirm(self, part: BatchPart, example: Batch | None) -> Results:
        """Send a part while nothing else is in flight, right after the example if there is one.

        First the requests that the server did not admit are sent again: if it does not because of
        this part, they would have to wait longer. Parts that wait for this are sent one after the
        other. Raises Fault, and InferenceError as `recover`.
        """
        if self._refused:
            self._on_note(
                f"the server admits nothing since record {part.batch.first} failed; the others are sent again first"
            )
            await self._none_is_refused.wait()
            self._on_note("")
        async with self.slots.alone():
            if example is not None and not part.is_explained_by_outage:
                await self._prove()
            if not part.is_explained_by_outage:
                part.sent_at = asyncio.get_running_loop().time()
                try:
                    return await self._predict(part.batch)
                except Fault as fault:
                    if self.server.has_admitted_nothing and (
                        fault.is_transient or fault.kind is FaultKind.SERVER_ERROR
                    ):
                        await self._prove()  # others would fail until the server is back
                    raise
        part.is_to_confirm = False
        if example is not None:
            await self.send_example(example, priority=part.batch.first)
        return await self.send(part)

    async def recover(self, part: BatchPart) -> None:
        """Wait until the server admits the example, and send nothing else meanwhile, unless it
        answers a request that it has got since it rejected this one. Raises InferenceError if it
        does not admit the example.
        """
        latest, server = part.failures[-1], self.server
        await self.settle()
        if server.troubled_at != latest.troubled_at:
            return
        async with self._recovering, self.slots.alone():
            if server.troubled_at == latest.troubled_at:
                note = "the server admits nothing, so one request at a time is sent until it does"
                _log.info(note)
                self._on_note(note)
                server.has_admitted_nothing |= server.failed_at is not None
                await self._prove(budget=BREAKERS * server.retry_seconds)
                self._on_note("")
                for one in list(self._refused):
                    one.recover()
                    self.note_outcome(one, is_refused=not one.is_to_confirm)

    async def settle(self) -> None:
        """Wait until it is known which requests failed together with one that has just failed."""
        together = set(self._in_flight)
        self._settling += 1
        try:
            async with asyncio.timeout(TOGETHER_SECONDS):
                while not together.isdisjoint(self._in_flight):
                    self._has_ended.clear()
                    await self._has_ended.wait()
        except TimeoutError:
            return
        finally:
            self._settling -= 1

    def note_outcome(self, part: BatchPart, *, is_refused: bool) -> None:
        """Note whether a part is sent again because it had no response."""
        if not (is_refused or self._refused):
            return
        (self._refused.add if is_refused else self._refused.discard)(part)
        (self._none_is_refused.clear if self._refused else self._none_is_refused.set)()

    @asynccontextmanager
    async def alone(self, part: BatchPart) -> AsyncIterator[None]:
        """Wait until nothing is in flight, and let nothing be sent but this batch and its parts.
        One batch at a time.

        If the search for a record of another batch has ended meanwhile, that explains the losses,
        and this one is sent as usual.
        """
        batch = part.batch
        if self.server.example is None:
            step = -(-len(batch) // _CANDIDATES)
            self._candidates += [batch.part(at, at + 1) for at in range(0, len(batch), step)]
        async with self._searching:
            if part.is_explained:
                part.begin(is_alone=False)
                yield
                return
            async with self.slots.alone():
                part.begin(is_alone=True)
                note = _note_of(batch)
                _log.info(note)
                self._on_note(note)
                try:
                    yield
                    await self._prove()  # what was lost with the batch is sent again now
                finally:
                    self.server.searches += 1
                    self._on_note("")

    async def send_alone(self, part: BatchPart) -> Results:
        """Send a batch after the server has answered the example. Raises Fault, and InferenceError
        if it answers nothing."""
        if not part.failures:
            await self._prove()
        else:
            was_up = await self._prove(fewest=_FEWEST_EXAMPLES, most=_MOST_EXAMPLES)
            part.was_up |= was_up and part.failures[-1].may_be_loss
        return await self._predict(part.batch)

    async def _prove(self, *, fewest: int = 1, most: int = 1, budget: float | None = None) -> bool:
        """Send the example until it is answered several times in a row. Returns whether the very
        first request was answered.

        Before there is an example, records without a response are sent in turns: the first one that
        is answered is the example. `budget` is how many seconds to wait; by default the server's
        patience. Raises InferenceError if the server does not come back.
        """
        server, loop = self.server, asyncio.get_running_loop()
        retries = Retries(
            budget=server.patience if budget is None else budget, until=server.restarts_until
        )
        lost = answered = needed = 0
        was_up = has_failed = False
        while not answered or answered < needed:
            record = server.example or self._candidates[lost % len(self._candidates)]
            if not answered:
                least = _CLOSING if server.has_admitted_nothing else fewest
                needed = random.randint(least, max(least, most))  # noqa: S311  not for security
            try:
                await self._predict(record)
                answered += 1
                was_up |= not has_failed
            except Fault as fault:
                answered, lost, has_failed = 0, lost + fault.was_sent, True
                server.example_failed_at = loop.time()
                server.has_admitted_nothing |= is_refusal(fault) and server.failed_at is not None
                wait = retries.wait_after(fault, now=loop.time(), first_wait=self.first_wait)
                if wait is None or (server.example is None and lost >= _CANDIDATES):
                    raise fault.error from fault
                await asyncio.sleep(min(wait, (fault.retry_after or 0.0) + _LONGEST_PAUSE))
        return was_up

    async def _predict(self, batch: Batch, ticket: Ticket | None = None) -> Results:
        """Send a request. Without a ticket, it says nothing about the speed of the server."""
        loop = asyncio.get_running_loop()
        started, is_sent, is_answered, records = loop.time(), True, False, len(batch)
        request = object()
        self._in_flight.add(request)
        try:
            with request_span(batch):
                results = await self._model.predict(batch)
            if len(results) != records:
                text = f"the model server returned {len(results)} predictions for {records} records"
                raise Fault(InferenceError(text), kind=FaultKind.INVALID)
            is_answered = True
            self._unreached = self._pauses = 0
        except MixedBatch:
            is_sent = False
            raise
        except Fault as fault:
            if fault.kind is FaultKind.LOST and self.server.cut_off_at is None:
                self.server.cut_off_at = loop.time()
            if ticket is not None:
                self.slots.fail(ticket, fault, pause=self.first_wait)
                self._note_unreached(fault)
                if fault.kind is FaultKind.TIMEOUT and self.sizer.is_adaptive and records > 1:
                    self.sizer.observe_timeout(records)
                    # a smaller one may be fast enough
                    raise Fault(fault.error, kind=FaultKind.TOO_LARGE) from fault
            raise
        finally:
            self._in_flight.discard(request)
            if self._settling:
                self._has_ended.set()
            if is_sent:
                self.ended += 1
                self.failed += not is_answered
                self.seconds += loop.time() - started
                self.sent_bytes += batch.nbytes
        self.received_bytes += results.values.nbytes
        self.server.answer(batch, results, started=started)
        unsent = [one for one in results.errors.values() if one.code == NOT_SENT]
        self.sizer.accept(records - len(unsent))
        if ticket is not None:
            duration = loop.time() - started
            self.sizer.observe(records, duration)
            self.slots.succeed(ticket, batch, results, seconds=duration)
            previous = duration if self._duration is None else self._duration
            self._duration = previous + _SMOOTHING * (duration - previous)
        return results

    def _note_unreached(self, fault: Fault) -> None:
        """Pause, longer each time, if as many requests in a row as are sent at a time could not be
        sent: each batch that is held would try."""
        if fault.was_sent or not fault.is_transient:
            return
        self._unreached += 1
        if self._unreached >= self.slots.number and not self.slots.is_paused:
            self._pauses += 1
            wait = backoff(self._pauses, first_wait=self.first_wait, jitter=random.random())  # noqa: S311  not for security
            self.slots.pause(min(wait, _LONGEST_PAUSE))


def _note_of(batch: Batch) -> str:
    last = batch.first + len(batch) - 1
    if last == batch.first:
        return (
            f"requests with record {last} get no response, so it is sent alone, and the others wait"
        )
    return f"requests with records {batch.first} to {last} get no response, so one of them is searched for, and the others wait"
