"""Sends batches to the model server: limits concurrency, retries, divides, and adapts the number and the size of the requests.

A request that waits for a retry occupies no slot. Retries have priority over later batches, which cannot be written before them.

A batch that is rejected, or has no valid response, is divided until the bad records are found. A server that rejects every record,
or gives a valid response to none, ends the attempt. A batch that repeatedly has no response at all although others have one may end
the server's process or occupy it for too long: it is sent while nothing else is in flight (`runner.isolation`).
"""

import asyncio
from collections.abc import Callable

from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    Limits,
    ModelProtocol,
    RecordError,
    Results,
    failed,
    join_results,
)
from runner.attempts import Attempts
from runner.batch_sizer import BatchSizer
from runner.blanks import with_blanks
from runner.concurrency.limit import Ticket
from runner.doubt import Doubt
from runner.error_budget import ErrorBudget
from runner.isolation import Isolation
from runner.recall import Recall, Recalled
from runner.record_errors import predict_valid
from runner.reorder_window import ReorderWindow
from runner.retries import first_wait_for, retried, with_retries
from runner.suspicion import Suspicion, Witnesses
from runner.tuned_slots import TunedSlots

_IN_DOUBT = (FaultKind.INVALID, FaultKind.SERVER_ERROR)
"""Faults for which a broken server may be to blame, or a record."""

_DIVIDED = (FaultKind.TOO_LARGE, FaultKind.REJECTED, *_IN_DOUBT)
"""Faults that a part of the batch may not meet."""

_OF_A_PROXY = (FaultKind.BUSY, FaultKind.UNAVAILABLE)
"""Faults that a proxy may report for a server that is away."""

_UNPROVEN = "unproven"
"""Code of the error of a record that is not to blame yet."""

_NO_RESPONSE = "no_response"
"""Code of the error of a record that has no response although others have one."""

_RESTARTS = 10
"""How many times as long as usual a request is retried after a lost connection: by default ten minutes. A server that has ended
because of a record needs the same Pod to find the record; Kubernetes waits up to five minutes before it restarts a container."""

_SMALLER = 4
"""Divisor of the number of records per request after the server has ended at a request without one of its records being to blame,
such as one that exceeds its memory limit."""

_SMOOTHING = 0.2
"""Weight of the latest request in the moving average of the requests' durations."""

_REJECTIONS_IN_A_ROW = 1000
"""Records that the server rejects one by one without accepting any: then the reason is the request, not the records."""

_UNPROVEN_SECONDS = 10.0
"""Seconds for which a batch is sent again because it has invalid responses and the server gives no valid one to another record."""

_ONE_BY_ONE = (
    "alone, the same records have valid responses; if the model takes one record per request, set requests.maxBatchRecords: 1 in "
    "the InferenceConfig"
)


class _Suspected(Exception):
    """A batch should be sent while nothing else is in flight."""

    def __init__(self, fault: Fault) -> None:
        """`fault` is the latest one."""
        super().__init__(str(fault))
        self.fault = fault


class _Exonerated(Exception):
    """Another batch was to blame for what happened to this one."""


class Sender:
    """Turns batches into results."""

    def __init__(
        self,
        model: ModelProtocol,
        window: ReorderWindow,
        *,
        limits: Limits,
        budget: ErrorBudget,
        recall: Recall | None,
        on_note: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_note` is called when `note` has changed."""
        self._model = model
        self._recall = recall
        self._budget = budget
        self._window = window
        self._retry_seconds = limits.retry_seconds
        maximum = min(limits.batch_rows, model.max_records or limits.batch_rows)
        self._sizer = BatchSizer(maximum=maximum, target_seconds=limits.request_seconds)
        self._slots = TunedSlots(limits)
        self._duration: float | None = None
        self._unsent: set[int] = set()
        self._has_sent = asyncio.Event()
        self._doubt = Doubt()
        self._witnesses = Witnesses()
        self._isolation = Isolation(
            self._answered,
            self._slots,
            self._doubt,
            budget=lambda: _RESTARTS * self._retry_seconds,
            first_wait=self._first_wait,
            report=self._take_note,
        )
        self.note = ""
        """Why requests are not sent as usual, for people; empty if they are."""

        self._on_note = on_note
        self._rejections = 0
        self._rejected_in_total = 0

    def wanted_records(self) -> int:
        """Return how many records the next request should have."""
        return self._sizer.rows

    @property
    def concurrency(self) -> int:
        """The number of requests that may be sent at a time."""
        return self._slots.number

    def _take_note(self, note: str) -> None:
        self.note = note
        self._on_note()

    async def wait_for_lookahead(self) -> None:
        """Wait until only a few batches are unsent, so that the reader is not further ahead than necessary."""
        while len(self._unsent) >= self.concurrency:
            self._has_sent.clear()
            await self._has_sent.wait()

    def expect(self, batch: Batch) -> None:
        """Count a batch as unsent until it is first sent."""
        self._unsent.add(batch.first)

    async def send(self, batch: Batch) -> Results:
        """Send a batch until it succeeds, without the records whose predictions are known. Raises InferenceError."""
        if self._recall is None:
            results = await self._found(batch)
        else:
            results = await self._complete(await self._recall.recall(batch))
        self._window.add(batch, results)
        return results

    async def _complete(self, recalled: Recalled) -> Results:
        unknown = recalled.unknown
        if unknown is not None:
            return recalled.merged(await self._found(unknown))
        self._note_sent(recalled.batch)
        return recalled.merged(None)

    async def _found(self, batch: Batch) -> Results:
        """Send the valid records of a batch."""
        if not batch.errors:
            return await self._proven(batch)
        if len(batch.errors) == len(batch):
            self._note_sent(batch)
        return await predict_valid(batch, self._proven)

    def _note_sent(self, batch: Batch) -> None:
        self._unsent.discard(batch.first)
        self._has_sent.set()

    async def _proven(self, batch: Batch) -> Results:
        """Send a batch until it succeeds, again and again until the server has given a valid response to any record."""
        attempts = Attempts(batch)

        async def send() -> Results:
            results = await self._request(batch, attempts)
            unproven = next((error for error in results.errors.values() if error.code == _UNPROVEN), None)
            if unproven is None:
                return results
            if self._doubt.example is None:
                raise Fault(InferenceError(unproven.message), kind=FaultKind.UNAVAILABLE)
            return await self._request(batch, attempts)

        budget = min(self._retry_seconds, _UNPROVEN_SECONDS)
        return attempts.applied(await with_retries(send, budget=budget, first_wait=self._first_wait))

    async def _request(self, batch: Batch, attempts: Attempts, *, is_blamed: bool = False) -> Results:
        """Send a batch until it succeeds, dividing it if a smaller one may succeed or if one of its records is to blame.

        `is_blamed`: without a valid response, the record is.
        """
        suspicion, findings = Suspicion(self._witnesses), self._isolation.findings
        try:
            return await self._sent(batch, attempts, suspicion)
        except _Suspected as suspected:
            return await self._isolated(batch, suspected.fault, attempts, suspicion)
        except _Exonerated:
            return await self._request(batch, attempts, is_blamed=is_blamed)
        except Fault as fault:
            if fault.is_transient and findings != self._isolation.findings:
                return await self._request(batch, attempts, is_blamed=is_blamed)  # as after _Exonerated
            if fault.is_transient and self._is_suspect(batch, fault, suspicion):
                return await self._isolated(batch, fault, attempts, suspicion)
            return await self._failed(batch, fault, attempts, is_blamed=is_blamed)

    async def _failed(self, batch: Batch, fault: Fault, attempts: Attempts, *, is_blamed: bool) -> Results:
        """Divide a batch that retries do not help, or find out whether its only record is to blame."""
        if fault.kind not in _DIVIDED:
            raise fault.error from fault
        if len(batch) > 1:
            return await self._divided(batch, fault, attempts)
        if fault.kind in _IN_DOUBT and not is_blamed:
            return await self._doubted(batch, fault, attempts)
        return self._rejected(fault)

    async def _sent(self, batch: Batch, attempts: Attempts, suspicion: Suspicion) -> Results:
        """Send a batch until it succeeds or is suspected of ending the server. Raises Fault, _Suspected and _Exonerated."""
        latest: Fault | None = None
        findings = self._isolation.findings

        async def send() -> Results:
            nonlocal latest
            if len(batch) > self._sizer.maximum:
                text = f"the server does not survive requests with {len(batch)} records"
                raise Fault(InferenceError(text), kind=FaultKind.TOO_LARGE)
            if latest is not None and findings != self._isolation.findings:
                raise _Exonerated
            if latest is not None and suspicion.is_strong:
                raise _Suspected(latest)
            if suspicion.needs_proof:
                await self._confirm()
            try:
                results = await self._try(batch)
            except Fault as fault:
                attempts.add(batch, is_sent=fault.was_sent)
                suspicion.add(fault, now=asyncio.get_running_loop().time())
                latest = fault
                raise
            attempts.add(batch)
            return results

        return await retried(send, budget=self._retry_seconds, until=self._end_of_restart, first_wait=self._first_wait)

    def _is_suspect(self, batch: Batch, fault: Fault, suspicion: Suspicion) -> bool:
        """Whether a batch whose retries have not helped is to be sent alone. Otherwise the server is to blame.

        If nothing was ever answered, a part of the batch may be: a proxy answers for a server that this batch ends each time.
        """
        if self._retry_seconds == 0:
            return False
        if self._doubt.example is None:
            return suspicion.was_cut_off or (len(batch) > 1 and _may_be_of_a_proxy(fault))
        return fault.kind is FaultKind.TIMEOUT or suspicion.is_repeated

    async def _isolated(self, batch: Batch, fault: Fault, attempts: Attempts, suspicion: Suspicion) -> Results:
        """Send a batch while nothing else is in flight, and the parts that are not to blame as usual."""
        patience = (_RESTARTS if suspicion.was_cut_off else 1) * self._retry_seconds
        try:
            parts = await self._isolation.resolve(batch, fault, attempts, patience=patience)
        except Fault as ended:
            raise ended.error from ended
        if len(parts) > 1 and all(isinstance(part.found, Results) for part in parts):
            self._sizer.cap(len(batch) // _SMALLER)
        found: list[Results] = []
        for part in parts:
            match part.found:
                case Results():
                    found.append(part.found)
                case Fault():
                    found.append(self._rejected(part.found))
                case None:
                    found.append(await self._request(part.batch, attempts))
        return with_blanks(join_results(found))

    async def _divided(self, batch: Batch, fault: Fault, attempts: Attempts) -> Results:
        size = _half(batch)
        if fault.kind is FaultKind.TOO_LARGE:
            self._sizer.observe_timeout(len(batch))
            size = min(self._sizer.rows, size)
        results = await self._in_parts(batch, attempts, size=size)
        is_pair = fault.kind in _IN_DOUBT and len(batch) == 2
        if is_pair and not results.errors and self._doubt.add_pair():
            raise InferenceError(f"{fault.error}; {_ONE_BY_ONE}") from fault
        return results

    async def _in_parts(self, batch: Batch, attempts: Attempts, *, size: int) -> Results:
        starts = range(0, len(batch), size)
        parts = [await self._request(batch.part(start, start + size), attempts) for start in starts]
        return with_blanks(join_results(parts))

    async def _doubted(self, record: Batch, fault: Fault, attempts: Attempts) -> Results:
        """Send a record with an invalid response again if the server gives a valid one to another record.

        If it gives none now, the whole batch is sent again later.
        """
        broken = Fault(fault.error, kind=FaultKind.UNAVAILABLE)
        if self._doubt.example is None:
            if self._doubt.add_unproven():
                raise broken from fault
            return failed(RecordError(_UNPROVEN, str(fault.error)))
        if not await self._has_valid_response(self._doubt.example):
            raise broken from fault
        return await self._request(record, attempts, is_blamed=True)

    async def _confirm(self) -> None:
        """Send the example with a slot, before other batches. Raises a transient Fault if it is not answered."""
        example = self._doubt.example
        if example is None:
            return
        await self._slots.acquire(example.first)
        try:
            await self._isolation.confirm()
        finally:
            self._slots.release()

    async def _has_valid_response(self, example: Batch) -> bool:
        async def send() -> Results:
            await self._slots.acquire(example.first)
            try:
                return _checked(example, await self._model.predict(example))
            finally:
                self._slots.release()

        try:
            await retried(send, budget=self._retry_seconds, first_wait=self._first_wait)
        except Fault as fault:
            if fault.is_transient:
                raise fault.error from fault
            return False
        return True

    def _rejected(self, fault: Fault) -> Results:
        """Return the error of a single record that the server rejects, unless more are rejected than may fail.

        If the contract does not say how many may, a server that seems to reject every record ends the run.
        """
        self._rejections += 1
        self._rejected_in_total += 1
        error = _error_of(fault)
        self._budget.check_rejections(self._rejected_in_total, error)
        if self._rejections >= _REJECTIONS_IN_A_ROW and not self._budget.is_limited:
            raise fault.error from fault
        return fault.results or failed(error)

    async def _try(self, batch: Batch) -> Results:
        while True:
            if not self._window.is_sendable(batch):
                await self._window.wait_until_sendable(batch)
            ticket = await self._slots.acquire(batch.first)
            try:
                if self._window.is_sendable(batch):
                    self._note_sent(batch)
                    return await self._predict(batch, ticket)
            finally:
                self._slots.release()

    async def _predict(self, batch: Batch, ticket: Ticket) -> Results:
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._witnesses.begin()
        is_answered = False
        try:
            results = _checked(batch, await self._model.predict(batch))
            is_answered = True
        except Fault as fault:
            self._slots.fail(ticket, fault, pause=self._first_wait())
            if fault.kind is FaultKind.TIMEOUT and self._sizer.is_adaptive and len(batch) > 1:
                raise Fault(fault.error, kind=FaultKind.TOO_LARGE) from fault  # a smaller one may be fast enough
            raise
        finally:
            self._witnesses.end(started=started, is_answered=is_answered)
        self._doubt.resolve(batch, results)
        self._rejections = 0
        self._observe(batch, results, ticket, duration=loop.time() - started)
        return results

    async def _answered(self, batch: Batch) -> Results:
        """Send a request without a slot."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            results = _checked(batch, await self._model.predict(batch))
        except Fault as fault:
            if fault.kind is FaultKind.LOST:
                self._witnesses.cut_off(loop.time())
            raise
        self._witnesses.add_answer(started)
        return results

    def _end_of_restart(self) -> float:
        """Until when requests are retried because the server has closed connections, and answered nothing since.

        A server that has never answered is not known to work.
        """
        since = self._witnesses.cut_off_at
        return 0.0 if since is None or self._doubt.example is None else since + _RESTARTS * self._retry_seconds

    def _first_wait(self) -> float:
        return first_wait_for(self._duration)

    def _observe(self, batch: Batch, results: Results, ticket: Ticket, *, duration: float) -> None:
        self._sizer.observe(len(batch), duration)
        self._slots.succeed(ticket, batch, results, seconds=duration)
        previous = duration if self._duration is None else self._duration
        self._duration = previous + _SMOOTHING * (duration - previous)


def _checked(batch: Batch, results: Results) -> Results:
    """Return the results if there is one per record. Raises Fault."""
    if len(results) != len(batch):
        text = f"the model server returned {len(results)} predictions for {len(batch)} records"
        raise Fault(InferenceError(text), kind=FaultKind.INVALID)
    return results


def _may_be_of_a_proxy(fault: Fault) -> bool:
    """Whether this may be how a proxy answers for a server that is away: 502, 503 or 504."""
    return fault.kind in _OF_A_PROXY and fault.was_sent and fault.retry_after is None


def _half(batch: Batch) -> int:
    return (len(batch) + 1) // 2


def _error_of(fault: Fault) -> RecordError:
    """The error of a record that is to blame for a fault."""
    if not fault.is_transient:
        return RecordError(code=str(fault.kind), message=str(fault.error))
    text = f"{fault.error}; this happens each time the record is sent, while others are answered; see the log of the model server"
    return RecordError(code=_NO_RESPONSE, message=text)
