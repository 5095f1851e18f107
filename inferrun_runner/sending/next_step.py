"""Decides what follows when a request with a batch, or with a part of one, has failed. `next_step`
is pure.

A record is blamed only for what it does alone, while the server answers another record, the
example: the first one that had a valid response. A server that is down, or broken for all records,
fails the example as well. Alone means alone in the server: many execute requests together, and
answer each with the error of one. So a failure is shared if another request failed at about the
same time, and a record whose failure is shared is sent while nothing else is in flight before it is
blamed.

- Rejected or too large: the batch is divided; a single record is blamed, unless the failure is
  shared.
- Invalid response or failure of the server: the same, but a single record is blamed only if it
  fails again, while nothing else is in flight, and right after the example has had a valid
  response. Some servers fail because of how many requests they get.
- Not served or denied: the model, the address or the access is the reason, unless the server still
  answers the example. So the request is sent again until it does, and then treated as in the
  previous case. Before any answer, an address that names the model is probably wrong, and so is the
  access: the attempt ends.
- No response: the batch is sent again. If the server ends, all requests in flight are lost, and at
  most a few are the reason. So a batch that is lost repeatedly, although others were answered in
  between, is sent while nothing else is in flight, and divided until single records are lost. A
  record is blamed after three losses, or seven if the server was not away after one of them: then
  connections are lost at random, or one of several processes ends. Three timeouts are enough.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from weakref import ref

from inferrun.formats.record_errors import NOT_SENT
from inferrun.plugins import Batch, Fault, FaultKind, Results
from inferrun_runner.network.retries import Retries

IN_DOUBT: Final = (FaultKind.INVALID, FaultKind.SERVER_ERROR)
"""Faults for which a broken server may be to blame, or a record."""

_OF_THE_SERVER: Final = (FaultKind.NOT_SERVED, FaultKind.DENIED)
"""Faults that concern the model, the address or the access. A record may be to blame, such as one
that names another model."""

_AFTER_EXAMPLE: Final = (*IN_DOUBT, *_OF_THE_SERVER)
"""Faults for which a record is to blame only if the server answers another one immediately
before."""

DIVIDED: Final = (FaultKind.TOO_LARGE, FaultKind.REJECTED, *IN_DOUBT)
"""Faults that a part of the batch may not meet."""

_OF_A_PROXY: Final = (FaultKind.BUSY, FaultKind.UNAVAILABLE)
"""Faults that a proxy may report for a server that is away: 502, 503, 504."""

_CRASHES, _LOSSES = 2, 4
"""Losses of a batch after which it is sent alone: with everything else in flight, and while others
were answered. In the second case one of several processes may have ended, or connections are lost
at random."""

_BLAMED, _BLAMED_IF_UP = 3, 7
"""Losses of a record alone for which it is blamed."""

_UNPROVEN: Final = 16
"""Records with an invalid response before any valid one at which the server is believed to be
broken: no others are tried."""

_UNPROVEN_SECONDS: Final = 10.0
"""Seconds for which such a record is sent again: a server that gives no valid response at all is
probably configured wrongly."""

_RESTARTS: Final = 10
"""How many times as long as usual a request is retried after a lost connection or a failure of the
server: by default ten minutes. A server that has ended because of a record needs the same Pod to
find the record; Kubernetes waits up to five minutes before it restarts a container. A router's
circuit breaker admits nothing for a minute after a few failures (vllm-router 0.1.17, smg 1.13.0),
and again if the first record after that fails."""

BREAKERS: Final = 3
"""How many times as long as usual the server is waited for if it admits nothing, although it
answered before. By default, requests are retried for a minute, which is when a circuit breaker
closes."""

TOGETHER_SECONDS: Final = 2.0
"""Requests that a server executes together fail at the same time. Their responses are taken at
times that differ by less."""

_CONFIRMED, _CHECKED_AGAIN = 32, 128
"""Records that failed alone as before after which a shared failure is believed, if nothing that had
failed was answered alone: then the server works on each request by itself. After each so many
blamed records, one is sent alone again."""


def is_refusal(fault: Fault) -> bool:
    """Whether the server, or a proxy in front of it, did not admit a request."""
    return fault.kind in _OF_A_PROXY and fault.was_sent


class NextStep(Enum):
    """What follows."""

    SEND = auto()
    SEND_LATER = auto()
    """After the other parts of the batch."""

    SEND_ALONE = auto()
    """While nothing else is in flight, with its parts, until the record is found."""

    CONFIRM = auto()
    """Once more, while nothing else is in flight."""

    DIVIDE = auto()
    BLAME = auto()
    FAIL = auto()
    """The attempt ends: the server is to blame."""


@dataclass(eq=False)
class Failure:
    """A request that failed."""

    fault: Fault
    at: float
    answers: int
    """Requests that the server had answered by then."""

    answered_from: float
    """When the latest of these requests was sent."""

    sent_at: float

    is_after_example: bool
    """Whether the server answered the example immediately before."""

    troubled_at: float | None
    """The server's `troubled_at` at that time."""

    is_consequence: bool
    """Whether the server had failed or closed a connection, and had answered nothing since that was
    sent later."""

    has_survivor: bool = False
    """Whether a request that was in flight at that time was answered."""

    is_shared: bool = False
    """Whether another request failed in the same way at about the same time."""

    @property
    def is_loss(self) -> bool:
        """Whether the records may be the reason: not if the request was never sent. If it says when
        to come back, the server is busy, unless that follows a failure: circuit breakers say it,
        too.
        """
        return self.may_be_loss and (self.fault.retry_after is None or self.is_consequence)

    @property
    def may_be_loss(self) -> bool:
        """Whether the records may be the reason if retries do not help."""
        return self.fault.is_transient and self.fault.was_sent

    @property
    def is_refusal(self) -> bool:
        """Whether the server, or a proxy in front of it, did not admit the request."""
        return is_refusal(self.fault)

    def coincides(self, other: "Failure") -> bool:
        """Return whether the server may have executed both requests together; the other one failed
        before."""
        is_together = self.sent_at < other.at and self.at - other.at < TOGETHER_SECONDS
        return is_together and self.fault.kind is other.fault.kind


class Server:
    """What the responses to all batches say about the server."""

    def __init__(self, *, retry_seconds: float) -> None:
        self.retry_seconds = retry_seconds
        self.example: Batch | None = None
        """A single record that had a valid response."""

        self.answers = 0
        self.answered_from = 0.0
        """When the latest of the answered requests was sent."""

        self.rejections = 0
        """Records blamed since the latest answer."""

        self.searches = 0
        """Searches for records that get no response. Each explains the losses before its end."""

        self.unproven = 0
        """Records with an invalid response before any had a valid one."""

        self.cut_off_at: float | None = None
        """When the server closed a connection or failed, unless it has answered a request since."""

        self.troubled_at: float | None = None
        """When the server did not admit a request or failed, unless it has answered a request
        since."""

        self.failed_at: float | None = None
        """When the server failed at last, whatever it has answered since."""

        self.has_admitted_nothing = False
        """Whether it once admitted nothing after it had failed, as a circuit breaker does."""

        self.example_failed_at = 0.0
        """When the example failed at last."""

        self._losses = deque[ref[Failure]]()
        """Those without a survivor, in their order, as far as they still matter to a batch."""

        self._latest = deque[Failure]()
        """The latest failures that are not transient."""

        self._blamed = self._confirmed = 0
        """Records that were blamed, and those of them that were because of what they did alone."""

        self._is_contradicted = False

    def answer(self, batch: Batch, results: Results, *, started: float) -> None:
        """Take a valid response into account, to a request that was sent at `started`."""
        self.answers += 1
        self.answered_from = max(self.answered_from, started)
        self.rejections = 0
        if self.cut_off_at is not None and started >= self.cut_off_at:
            # a response to an earlier request does not say that the server is back
            self.cut_off_at = None
        if self.troubled_at is not None and started >= self.troubled_at:
            self.troubled_at = None
        while self._losses:
            loss = self._losses[-1]()
            if loss is not None and loss.at <= started:
                break  # and so are those before it
            if loss is not None:
                loss.has_survivor = True
            self._losses.pop()
        if self.example is None:
            sent = (
                at
                for at in range(len(batch))
                if at not in results.errors or results.errors[at].code != NOT_SENT
            )
            if (at := next(sent, None)) is not None:
                self.example = batch.part(at, at + 1)

    def fail(self, failure: Failure, *, records: int) -> None:
        """Take the failure of a request with so many records into account."""
        kind = failure.fault.kind
        if self.example is not None and (
            failure.is_refusal or kind in (FaultKind.SERVER_ERROR, FaultKind.LOST)
        ):
            self.troubled_at = failure.at if self.troubled_at is None else self.troubled_at
        failure.troubled_at = self.troubled_at
        if failure.fault.is_transient:
            while self._losses and self._losses[0]() is None:
                self._losses.popleft()
            self._losses.append(ref(failure))
            return
        if kind is FaultKind.SERVER_ERROR and self.example is not None:
            self.failed_at = failure.at
            self.cut_off_at = self.cut_off_at or failure.at
        if kind in IN_DOUBT and records == 1:
            self.unproven += self.example is None
        while self._latest and failure.at - self._latest[0].at >= TOGETHER_SECONDS:
            self._latest.popleft()
        for other in self._latest:
            if failure.coincides(other):
                failure.is_shared = other.is_shared = True
        self._latest.append(failure)

    def blame(self, *, is_confirmed: bool) -> None:
        """Take a blamed record into account."""
        self.rejections += 1
        self._blamed += 1
        self._confirmed += is_confirmed

    def contradict(self) -> None:
        """Take into account that a record that had failed was answered alone."""
        self._is_contradicted = True

    @property
    def is_separate(self) -> bool:
        """Whether the server seems to work on each request by itself. Sometimes not, so that this
        is found out again."""
        is_known = self._confirmed >= _CONFIRMED and not self._is_contradicted
        return is_known and self._blamed % _CHECKED_AGAIN != 0

    @property
    def is_to_save_requests(self) -> bool:
        """Whether suspects are sent alone at once instead of twice. Many such records are sent
        twice to learn about the server."""
        return self._is_contradicted or self._blamed < _CONFIRMED

    @property
    def is_broken(self) -> bool:
        """Whether too many records had an invalid response before any had a valid one."""
        return self.example is None and self.unproven >= _UNPROVEN

    @property
    def patience(self) -> float:
        """Seconds for which a search waits for the server."""
        may_restart = self.example is not None or self.cut_off_at is not None
        return (_RESTARTS if may_restart else 1) * self.retry_seconds

    def restarts_until(self) -> float:
        """Until when requests are retried although they failed for long, because connections were
        closed or the server failed.

        A server that has never answered may not work.
        """
        failed = [at for at in (self.cut_off_at, self.failed_at) if at is not None]
        return (
            max(failed) + _RESTARTS * self.retry_seconds
            if failed and self.example is not None
            else 0.0
        )


@dataclass(eq=False, slots=True)
class Divided:
    """A batch that failed, and was divided."""

    records: int
    kind: FaultKind
    parts: int
    """Those that were not answered yet."""

    is_shared: bool
    """Whether it failed together with others."""


class BatchPart:
    """A batch or a part of it that has no results yet, and what its requests met."""

    def __init__(
        self, batch: Batch, server: Server, *, is_alone: bool = False, origin: Divided | None = None
    ) -> None:
        """`origin`: the batch of which this is a part."""
        self.batch = batch
        self.server = server
        self.origin = origin
        self.is_to_confirm = False
        """Whether it is sent while nothing else is in flight."""

        self.begin(is_alone=is_alone)

    def begin(self, *, is_alone: bool) -> None:
        """Forget the failures, which something else explains, or which led to a search."""
        self.is_alone = is_alone
        self.sent_at = 0.0
        self.was_up = False
        """While it is sent alone: whether the server answered the next request after a loss."""

        self.failures: list[Failure] = []
        self.wait = 0.0
        """Seconds to wait before the next request."""

        self.is_spent = False
        """Whether there is no time left for retries."""

        self._retries = Retries(budget=self.server.retry_seconds, until=self.server.restarts_until)
        self._searches = self.server.searches

    @property
    def is_explained(self) -> bool:
        """Whether a search has ended since the beginning."""
        return self._searches != self.server.searches

    @property
    def needed_example(self) -> Batch | None:
        """The example, if the server is to answer it first: only then does the next failure say
        something about the records."""
        if not self.failures or self.is_alone:
            return None
        losses = self.losses()
        doubtful = _AFTER_EXAMPLE if self.is_to_confirm else IN_DOUBT
        is_in_doubt = any(one.fault.kind in doubtful for one in self.failures)
        is_unproven = (
            losses
            and losses[-1] is not self.failures[-1]
            and losses[-1].answers == self.server.answers
        )
        is_needed = (
            is_in_doubt
            or is_unproven
            or (self.is_to_confirm and any(one.is_refusal for one in self.failures))
        )
        return self.server.example if is_needed else None

    @property
    def is_proven(self) -> bool:
        """Whether the latest request failed alone, right after the server had answered the
        example."""
        return self.failures[-1].is_after_example and (self.is_alone or self.is_to_confirm)

    @property
    def is_address_wrong(self) -> bool:
        """Whether the address or the access is probably wrong: the server has answered nothing, and
        does not let the client in, or does not have what the address names. A gateway may get the
        model that the request of a single record names.
        """
        fault = self.failures[-1].fault
        is_of_address = fault.kind is FaultKind.DENIED or fault.results is None
        return self.server.example is None and fault.kind in _OF_THE_SERVER and is_of_address

    @property
    def is_to_wait(self) -> bool:
        """Whether to wait before the next request. A search waits until the example is answered
        instead."""
        latest = self.failures[-1]
        if latest.fault.kind in _OF_THE_SERVER:
            return not (self.is_proven or self.is_address_wrong)
        is_searched_for = self.is_alone and latest.may_be_loss and latest.fault.retry_after is None
        return latest.fault.is_transient and not is_searched_for

    @property
    def is_refused_again(self) -> bool:
        """Whether the server admits nothing: it has answered none of the requests that were sent
        since it rejected this one."""
        latest = self.failures[-1]
        if (
            not latest.is_refusal
            or latest.troubled_at is None
            or self.is_alone
            or self.is_to_confirm
        ):
            return False
        return sum(one.troubled_at == latest.troubled_at for one in self.failures) > 1

    def recover(self) -> None:
        """Begin anew after the server admitted nothing. If this was in flight when that began, it
        may be the reason."""
        self.is_to_confirm = any(
            one.troubled_at is not None and one.sent_at <= one.troubled_at for one in self.failures
        )
        self._retries = Retries(budget=self.server.retry_seconds, until=self.server.restarts_until)
        self.is_spent = False

    @property
    def is_explained_by_outage(self) -> bool:
        """Whether the server had failed when this was sent, and the example fails, too. Once
        only."""
        if len(self.failures) != 1:
            return False
        (failure,) = self.failures
        is_sent_later = failure.troubled_at is not None and failure.troubled_at < failure.sent_at
        return is_sent_later and failure.at < self.server.example_failed_at

    def fail(self, fault: Fault, *, now: float, is_after_example: bool, first_wait: float) -> None:
        """Take the failure of the latest request into account."""
        server = self.server
        if self.is_explained:
            self.begin(is_alone=False)
        failure = Failure(
            fault,
            now,
            answers=server.answers,
            answered_from=server.answered_from,
            sent_at=self.sent_at,
            is_after_example=is_after_example,
            troubled_at=None,
            is_consequence=server.cut_off_at is not None,
        )
        self.failures.append(failure)
        server.fail(failure, records=len(self.batch))
        wait = self._retries.wait_after(fault, now=now, first_wait=first_wait)
        is_unproven = fault.kind in IN_DOUBT and server.example is None
        self.is_spent = wait is None or (
            is_unproven and now - self.failures[0].at > _UNPROVEN_SECONDS
        )
        self.wait = wait or 0.0

    def losses(self, *, is_spent: bool = False) -> list[Failure]:
        """The losses that count: the server has answered another request since the previous one. A
        timeout says nothing."""
        found: list[Failure] = []
        answers = 0
        for one in self.failures:
            is_loss = one.may_be_loss if is_spent else one.is_loss
            if is_loss and one.fault.kind is not FaultKind.TIMEOUT and one.answers > answers:
                found.append(one)
                answers = one.answers
        return found


def next_step(part: BatchPart) -> NextStep:
    """Decide what follows after the latest failure."""
    latest, server = part.failures[-1], part.server
    kind, has_example = latest.fault.kind, server.example is not None
    if latest.fault.is_transient:
        return _step_alone(part) if part.is_alone else _step_without_response(part)
    if kind in _OF_THE_SERVER and not part.is_proven:
        return _step_not_served(part)
    if kind not in (*DIVIDED, *_AFTER_EXAMPLE):
        return NextStep.FAIL
    if len(part.batch) > 1:
        return NextStep.DIVIDE
    if kind in _AFTER_EXAMPLE:
        return _step_in_doubt(part) if has_example else _step_unproven(part)
    is_certain = part.is_alone or part.is_to_confirm or not latest.is_shared or server.is_separate
    return NextStep.BLAME if is_certain else NextStep.CONFIRM


def _step_not_served(part: BatchPart) -> NextStep:
    """The server, or what it serves, may be away, or the record asks for something else, although
    others are answered."""
    latest, server = part.failures[-1], part.server
    if server.example is None:
        return NextStep.FAIL if part.is_spent or part.is_address_wrong else NextStep.SEND
    first = next(one for one in part.failures if one.fault.kind in _OF_THE_SERVER)
    is_in_doubt = latest.answered_from > first.at
    return NextStep.CONFIRM if is_in_doubt or part.is_spent else NextStep.SEND


def _step_in_doubt(part: BatchPart) -> NextStep:
    """The record may be the reason, and the server has answered others."""
    latest = part.failures[-1]
    # If the server admitted nothing, perhaps because of this record, its first failure was a
    # refusal.
    is_refused = part.server.has_admitted_nothing
    is_first = (
        sum(
            one.fault.kind in _AFTER_EXAMPLE or (is_refused and one.may_be_loss)
            for one in part.failures
        )
        == 1
    )
    if part.is_alone or part.is_to_confirm:
        if latest.is_after_example and not is_first:
            return NextStep.BLAME
        return NextStep.SEND
    if not part.server.is_separate:
        return NextStep.CONFIRM
    return NextStep.BLAME if latest.is_after_example and not is_first else NextStep.SEND


def _step_unproven(part: BatchPart) -> NextStep:
    """The server has answered nothing yet. If it executes requests together, a record alone may be
    answered."""
    if part.is_to_confirm or sum(one.fault.kind in IN_DOUBT for one in part.failures) == 1:
        return NextStep.FAIL if part.is_spent and len(part.failures) > 1 else NextStep.SEND_LATER
    return NextStep.FAIL if part.is_spent else NextStep.CONFIRM


def _step_alone(part: BatchPart) -> NextStep:
    """There was no response although nothing else was in flight, and the server answered before."""
    if not part.failures[-1].may_be_loss:
        return NextStep.FAIL if part.is_spent else NextStep.SEND
    if len(part.batch) > 1:
        return NextStep.DIVIDE
    losses = [one.fault.kind for one in part.failures if one.may_be_loss]
    may_be_chance = part.was_up and set(losses) != {FaultKind.TIMEOUT}
    return (
        NextStep.BLAME
        if len(losses) >= (_BLAMED_IF_UP if may_be_chance else _BLAMED)
        else NextStep.SEND
    )


def _step_without_response(part: BatchPart) -> NextStep:
    server, latest, losses = part.server, part.failures[-1], part.losses()
    # retries help against overload
    closed = [loss for loss in losses if loss.fault.kind is not FaultKind.BUSY]
    if sum(not loss.has_survivor for loss in closed) >= _CRASHES or len(closed) >= _LOSSES:
        return NextStep.SEND_ALONE
    if (
        part.is_to_confirm
        and sum(one.may_be_loss and one.is_after_example for one in part.failures) >= _CRASHES
    ):
        return NextStep.SEND_ALONE
    if not part.is_spent:
        return NextStep.SEND
    if server.example is not None:
        may_be_cause = (
            latest.fault.kind is FaultKind.TIMEOUT or len(part.losses(is_spent=True)) >= _CRASHES
        )
    else:
        # a proxy may answer for a server that this batch ends each time, and a part of it may be
        # answered
        may_be_proxy = latest.fault.kind in _OF_A_PROXY and latest.is_loss
        may_be_cause = server.cut_off_at is not None or (len(part.batch) > 1 and may_be_proxy)
    return NextStep.SEND_ALONE if may_be_cause and server.retry_seconds else NextStep.FAIL
