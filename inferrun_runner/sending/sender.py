"""Turns batches into results: sends them, and does what `next_step` decides after a failure.

A request that waits for a retry occupies no slot. Retries have priority over later batches, which
cannot be written before them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Final, Protocol

from inferrun.formats.record_errors import NOT_SENT, in_places, predict_valid, selected, with_blanks
from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    Limits,
    MixedBatch,
    ModelProtocol,
    RecordError,
    Results,
    failed,
    join_results,
)
from inferrun_runner.sending.error_budget import ErrorBudget
from inferrun_runner.sending.next_step import (
    DIVIDED,
    IN_DOUBT,
    BatchPart,
    Divided,
    NextStep,
    next_step,
)
from inferrun_runner.sending.recall import Predict
from inferrun_runner.sending.reorder_window import ReorderWindow
from inferrun_runner.sending.requests import Requests

_NO_RESPONSE: Final = "no_response"
"""Code of the error of a record that has no response although others have one."""

_PARTS: Final = 32
"""Parts of a batch that is lost alone: with 1024 records, two losses find the record. Each may cost
the restart of a server."""

_GROUPED: Final = 1000
"""Records of a batch whose requests have fewer, because they differ in form. As many as requests
have at most, by default."""

_SMALLER: Final = 4
"""Divisor of the number of records per request after a batch was lost alone although none of its
parts is, for example because the server exceeds its memory limit."""

_FIRST_SECONDS: Final = 0.2
"""The seconds for which the others wait for the first batch. A server that accepts fewer records in
a request usually says so at once."""

_JOINED: Final = 16
"""After a record is blamed, the rest of its batch is sent in one request, unless it has more than
this many times the records since the previous blamed one. Then others are probably close, and the
rest, which would fail as well, remains divided."""

_REJECTIONS_IN_A_ROW: Final = 1000
"""Records that the server rejects one by one without accepting any: then the reason is the request,
not the records."""

_EACH_TIME: Final = "this happens each time the record is sent, while others are answered; see the log of the model server"


class Known(Protocol):
    """Knows predictions that need no request."""

    async def predict(self, batch: Batch, predict: Predict) -> Results:
        """Return the results of a batch; `predict` gets the records without a known prediction."""


class Sender:
    """Sends the batches of one run."""

    def __init__(
        self,
        model: ModelProtocol,
        window: ReorderWindow,
        *,
        limits: Limits,
        budget: ErrorBudget,
        known: Iterable[Known] = (),
        on_note: Callable[[str], None] = lambda _: None,
        on_results: Callable[[Batch, Results], None] | None = None,
    ) -> None:
        """`known`: who is asked for a prediction before the model is, the last one first.

        `on_note` is called as by `Requests`, `on_results` with the results of each batch.
        """
        self.requests = Requests(model, window, limits=limits, on_note=on_note)
        self._server = self.requests.server
        self.sizer = self.requests.sizer
        self.slots = self.requests.slots
        self._window = window
        self._budget = budget
        self._rejected_in_total = 0
        self._divided_batches = set[int]()
        """The first records of batches that were divided and are not settled yet."""
        self._has_begun = False
        self._is_open = asyncio.Event()
        """Set once the first batch is settled, or has taken a while. One record is not too many,
        nor what the config states."""

        if self.sizer.maximum == 1 or not self.sizer.is_adaptive:
            self._is_open.set()

        settle = partial(predict_valid, predict=self._settle_groups)
        for one in known:
            settle = partial(one.predict, predict=settle)
        self._settle_all = settle
        self._on_results = on_results
        self._groups = 1
        """How many groups the latest batch had of which each needs requests of its own."""

    def send(self, batch: Batch) -> Coroutine[None, None, Results]:
        """Send a batch until it succeeds, without the records whose predictions are known. Raises
        InferenceError.

        The number of records of the next batch depends on this one from the call on, before the
        coroutine is awaited.
        """
        if self._groups == 1:
            self.sizer.begin(len(batch))
        return self._send(batch)

    async def _send(self, batch: Batch) -> Results:
        if not self._has_begun:
            self._has_begun = True
            asyncio.get_running_loop().call_later(_FIRST_SECONDS, self._is_open.set)
        elif not self._is_open.is_set():
            await self._is_open.wait()
        try:
            results = await self._settle_all(batch)
        finally:
            self.sizer.end(len(batch))
            self._is_open.set()
        self._window.add(batch, results)
        if self._on_results:
            self._on_results(batch, results)
        return results

    @property
    def wanted(self) -> int:
        """The number of records of the next batch: enough for full requests, if only some of them
        may be in one."""
        rows = self.sizer.rows
        return max(rows, min(rows * self._groups, _GROUPED))

    @property
    def lookahead(self) -> int:
        """How many batches may be ready to be sent. One while the server's limit is searched for,
        because each step changes it."""
        is_searching = self.sizer.is_searching or not self._is_open.is_set()
        return 1 if is_searching else self.slots.number

    async def _settle_groups(self, batch: Batch) -> Results:
        """Settle the records that may be in one request apart from the others, at the same time.
        Raises as `send`, or a group.

        That they differ is found when a request is made, so it costs nothing if they do not.
        """
        if self._groups == 1:
            try:
                return await self._settle(batch)
            except MixedBatch:
                pass
        groups, most = self.requests.groups_of(batch.records), self.sizer.rows
        self._groups = len(groups)
        parts = [
            group[start : start + most] for group in groups for start in range(0, len(group), most)
        ]
        async with asyncio.TaskGroup() as tasks:
            settled = [
                tasks.create_task(
                    self._settle(Batch(first=batch.first, records=selected(batch.records, places)))
                )
                for places in parts
            ]
        return in_places(
            join_results([one.result() for one in settled]), list(chain.from_iterable(parts))
        )

    async def _settle(self, batch: Batch) -> Results:
        """Send a batch, divided if necessary, until each of its records has a prediction or an
        error. Raises InferenceError."""
        whole = BatchPart(batch, self._server)
        outcome = await self._try(whole)
        if isinstance(outcome, Results):
            return _counted(outcome, lambda _: 1)
        return await self._settle_failed(batch, whole, outcome)

    async def _settle_failed(self, batch: Batch, whole: BatchPart, failed_with: Fault) -> Results:
        """Settle a batch whose first request, as a whole, has failed. Raises as `_settle`."""
        parts, later = deque([whole]), deque[BatchPart]()
        first_outcome: Fault | None = failed_with
        found: dict[int, Results] = {}
        attempts = Counter[int]()
        blamed_until = batch.first
        # why the batch was rejected of which the next part is the first half
        cause: Fault | None = None
        async with AsyncExitStack() as search:
            while parts or later:
                if later and (self._server.is_broken or not parts):
                    part = later.popleft()
                    await asyncio.sleep(part.wait)
                else:
                    part = parts.popleft()
                if not part.is_alone:
                    await search.aclose()
                outcome, first_outcome = first_outcome or await self._try(part), None
                first, stop = part.batch.first, part.batch.first + len(part.batch)
                if isinstance(outcome, Results):
                    attempts.update(first + at for at in outcome.errors)
                    found[first] = outcome
                    cause = cause if cause and len(parts[0].batch) > 1 else None
                    if cause:  # the second half would be rejected
                        parts.extendleft(reversed(self._divided(parts.popleft(), cause)))
                    continue
                attempts.update(range(first, stop) if outcome.was_sent else ())
                step = next_step(part)
                cause = (
                    outcome
                    if self._has_bad_record(part, batch, outcome) and step is NextStep.DIVIDE
                    else None
                )
                match step:
                    case NextStep.SEND | NextStep.CONFIRM:
                        part.is_to_confirm |= step is NextStep.CONFIRM
                        parts.appendleft(part)
                    case NextStep.SEND_LATER:
                        later.append(part)
                    case NextStep.SEND_ALONE:
                        await search.enter_async_context(self.requests.alone(part))
                        parts.appendleft(part)
                    case NextStep.DIVIDE:
                        self._divided_batches.add(batch.first)
                        parts.extendleft(reversed(self._divided(part, outcome)))
                    case NextStep.BLAME:
                        found[first] = self._blamed(
                            outcome, is_confirmed=part.is_to_confirm and len(part.failures) > 1
                        )
                        rest = batch.part(stop - batch.first, len(batch))
                        good = 0 if later else first - blamed_until
                        parts = self._rejoined(rest, parts, good=good)
                        blamed_until = stop
                    case NextStep.FAIL:
                        raise outcome.error from outcome
        self._divided_batches.discard(batch.first)
        return _joined(found, attempts, first=batch.first)

    def _rejoined(self, rest: Batch, parts: deque[BatchPart], *, good: int) -> deque[BatchPart]:
        """Return the rest of a batch, after a record that is blamed and `good` records before it,
        as one part if it may be sent in one request; otherwise the parts that are left."""
        is_left = all(one.batch.first >= rest.first and not one.is_alone for one in parts)
        is_all = is_left and len(rest) == sum(len(one.batch) for one in parts)
        is_short = 0 < len(rest) <= min(_JOINED * good, self.sizer.fitting)
        return deque([BatchPart(rest, self._server)]) if is_all and is_short else parts

    async def _try(self, part: BatchPart) -> Results | Fault:
        """Send a part once. After a failure, wait: requests that were in flight may be answered
        meanwhile."""
        requests, example = self.requests, part.needed_example
        try:
            if part.is_alone:
                results = await requests.send_alone(part)
            elif part.is_to_confirm:
                results = await requests.confirm(part, example)
            else:
                if example is not None:
                    await requests.send_example(example, priority=part.batch.first)
                results = await requests.send(part)
        except Fault as fault:
            is_proven = example is not None or part.is_alone
            now = asyncio.get_running_loop().time()
            part.fail(fault, now=now, is_after_example=is_proven, first_wait=requests.first_wait)
            requests.note_outcome(
                part, is_refused=fault.is_transient and not (part.is_alone or part.is_to_confirm)
            )
            if part.is_refused_again:
                await requests.recover(part)
            elif part.is_to_wait:
                await asyncio.sleep(part.wait)
            elif len(part.batch) <= 2 and not part.is_alone:
                await requests.settle()
            return fault
        requests.note_outcome(part, is_refused=False)
        if part.is_to_confirm and part.failures:
            self._server.contradict()
        self._check_division(part.origin)
        return results

    def _has_bad_record(self, part: BatchPart, batch: Batch, fault: Fault) -> bool:
        """Return whether a part of a batch was rejected because of a record, and not of their
        number."""
        if fault.kind in DIVIDED and len(part.batch) <= self.sizer.proven:
            self.sizer.end(len(batch))
        return fault.kind is FaultKind.REJECTED and not self.sizer.is_suspect(len(part.batch))

    def _divided(self, part: BatchPart, fault: Fault) -> list[BatchPart]:
        batch, size, origin = part.batch, (len(part.batch) + 1) // 2, part.origin
        if part.is_alone and fault.is_transient:
            size = -(-len(batch) // _PARTS)
        elif fault.kind is FaultKind.TOO_LARGE:
            size = min(self.sizer.fitting, size)
        starts = list(range(0, len(batch), size))
        if not fault.was_sent and fault.kind is FaultKind.TOO_LARGE:
            # the limit may be known better when the rest is sent
            starts = [0, min(self.sizer.rows, size)]
        if part.failures:
            origin = Divided(
                len(batch), fault.kind, len(starts), is_shared=part.failures[-1].is_shared
            )
        elif origin:
            origin.parts += len(starts) - 1
        parts = [
            BatchPart(batch.part(start, stop), self._server, is_alone=part.is_alone, origin=origin)
            for start, stop in pairwise([*starts, len(batch)])
        ]
        if fault.kind not in IN_DOUBT and not part.is_alone and len(self._divided_batches) > 1:
            for one in parts:  # a single record needs no other request before it is blamed
                one.is_to_confirm = len(one.batch) == 1 and self._server.is_to_save_requests
        return parts

    def _check_division(self, origin: Divided | None) -> None:
        """Find out whether the size of a request was the reason why it failed, because a part of it
        was answered."""
        if origin is None:
            return
        origin.parts -= 1
        if origin.parts:
            return
        if origin.is_shared:
            self._server.contradict()
        if origin.kind in DIVIDED and not (
            origin.is_shared and origin.records <= self.sizer.proven
        ):
            self.sizer.refuse(origin.records, is_certain=origin.kind is FaultKind.TOO_LARGE)
        elif origin.kind not in DIVIDED:
            self.sizer.cap(origin.records // _SMALLER)

    def _blamed(self, fault: Fault, *, is_confirmed: bool) -> Results:
        """Return the error of a single record that is to blame, unless more are than may fail.

        If the contract does not say how many may, a server that seems to reject every record ends
        the run.
        """
        self._server.blame(is_confirmed=is_confirmed)
        self._rejected_in_total += 1
        self.sizer.has_invalid = True
        error = RecordError(code=str(fault.kind), message=str(fault.error))
        if fault.is_transient:
            error = RecordError(code=_NO_RESPONSE, message=f"{fault.error}; {_EACH_TIME}")
        self._budget.check_rejections(self._rejected_in_total, error)
        if self._server.rejections >= _REJECTIONS_IN_A_ROW and not self._budget.is_limited:
            raise fault.error from fault
        return fault.results or failed(error)


def _joined(found: Mapping[int, Results], attempts: Mapping[int, int], *, first: int) -> Results:
    """Join the results of the parts of a batch, by their first records."""
    in_order = [results for _, results in sorted(found.items())]
    results = in_order[0] if len(in_order) == 1 else with_blanks(join_results(in_order))
    return _counted(results, lambda at: attempts[first + at])


def _counted(results: Results, attempts: Callable[[int], int]) -> Results:
    """Say of each record that has failed how many times it was sent."""
    if not results.errors:
        return results
    errors = {
        at: one if one.code == NOT_SENT else replace(one, attempts=attempts(at))
        for at, one in results.errors.items()
    }
    return replace(results, errors=errors)
