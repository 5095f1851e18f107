"""Decides what follows when a request with a batch, or with a part of one, has failed. `next_step` is pure.

A record is blamed only for what it does alone, while the server answers another record, the example: the first one that had a valid
response. A server that is down, or broken for all records, fails the example as well.

- Rejected or too large: the batch is divided; a single record is blamed.
- Invalid response or failure of the server: the same, but a single record is blamed only if it fails again after the example has
  had a valid response.
- No response: the batch is sent again. If the server ends, all requests in flight are lost, and at most a few are the reason. So a
  batch that is lost repeatedly, although others were answered in between, is sent while nothing else is in flight, and divided
  until single records are lost. A record is blamed after three losses, or seven if the server was not away after one of them: then
  connections are lost at random, or one of several processes ends. Three timeouts are enough.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from weakref import WeakSet

from inferrun.formats.record_errors import NOT_SENT
from inferrun.plugins import Batch, Fault, FaultKind, Results
from runner.network.retries import Retries

IN_DOUBT: Final = (FaultKind.INVALID, FaultKind.SERVER_ERROR)
"""Faults for which a broken server may be to blame, or a record."""

_DIVIDED: Final = (FaultKind.TOO_LARGE, FaultKind.REJECTED, *IN_DOUBT)
"""Faults that a part of the batch may not meet."""

_OF_A_PROXY: Final = (FaultKind.BUSY, FaultKind.UNAVAILABLE)
"""Faults that a proxy may report for a server that is away: 502, 503, 504."""

_CRASHES, _LOSSES = 2, 4
"""Losses of a batch after which it is sent alone: with everything else in flight, and while others were answered. In the second
case one of several processes may have ended, or connections are lost at random."""

_BLAMED, _BLAMED_IF_UP = 3, 7
"""Losses of a record alone for which it is blamed."""

_UNPROVEN: Final = 16
"""Records with an invalid response before any valid one at which the server is believed to be broken: no others are tried."""

_UNPROVEN_SECONDS: Final = 10.0
"""Seconds for which such a record is sent again: a server that gives no valid response at all is probably configured wrongly."""

_PAIRED: Final = 8
"""Records in a row that have valid responses alone, but not as one of two: the server takes one record per request."""

_RESTARTS: Final = 10
"""How many times as long as usual a request is retried after a lost connection: by default ten minutes. A server that has ended
because of a record needs the same Pod to find the record; Kubernetes waits up to five minutes before it restarts a container."""


class NextStep(Enum):
    """What follows."""

    SEND = auto()
    SEND_LATER = auto()
    """After the other parts of the batch."""

    SEND_ALONE = auto()
    """While nothing else is in flight."""

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

    is_after_example: bool
    """Whether the server answered the example immediately before."""

    has_survivor: bool = False
    """Whether a request that was in flight at that time was answered."""

    @property
    def is_loss(self) -> bool:
        """Whether the records may be the reason: not if it says when to come back, or the request was never sent."""
        return self.fault.is_transient and self.fault.was_sent and self.fault.retry_after is None


class Server:
    """What the responses to all batches say about the server."""

    def __init__(self, *, retry_seconds: float) -> None:
        self.retry_seconds = retry_seconds
        self.example: Batch | None = None
        """A single record that had a valid response."""

        self.answers = 0
        self.rejections = 0
        """Records blamed since the latest answer."""

        self.searches = 0
        """Searches for records that get no response. Each explains the losses before its end."""

        self.unproven = 0
        """Records with an invalid response before any had a valid one."""

        self.cut_off_at: float | None = None
        """When the server closed a connection, unless it has answered a request since."""

        self._paired = 0
        self._losses = WeakSet[Failure]()

    def answer(self, batch: Batch, results: Results, *, started: float) -> None:
        """Take a valid response into account, to a request that was sent at `started`."""
        self.answers += 1
        self.rejections = 0
        if self.cut_off_at is not None and started >= self.cut_off_at:
            self.cut_off_at = None  # a response to an earlier request does not say that the server is back
        for loss in self._losses if self._losses else ():  # that of no losses would take 2 % of a small request
            loss.has_survivor |= started < loss.at
        if self.example is None:
            sent = (at for at in range(len(batch)) if at not in results.errors or results.errors[at].code != NOT_SENT)
            if (at := next(sent, None)) is not None:
                self.example = batch.part(at, at + 1)
        if len(batch) > 1:
            self._paired = 0

    def fail(self, failure: Failure, *, records: int) -> None:
        """Take the failure of a request with so many records into account."""
        if failure.fault.is_transient:
            self._losses.add(failure)
        elif failure.fault.kind in IN_DOUBT and records == 1:
            self._paired = 0
            self.unproven += self.example is None

    def add_paired(self) -> bool:
        """Count a record with a valid response alone that had none as one of two. Returns whether these are too many."""
        self._paired += 1
        return self._paired >= _PAIRED

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
        """Until when requests are retried because connections were closed. A server that has never answered may not work."""
        if self.cut_off_at is None or self.example is None:
            return 0.0
        return self.cut_off_at + _RESTARTS * self.retry_seconds


@dataclass(eq=False, slots=True)
class Lost:
    """A batch that was lost alone, and divided."""

    records: int
    parts: int
    """Those without a response."""


class Part:
    """A batch or a part of it that has no results yet, and what its requests met."""

    def __init__(
        self, batch: Batch, server: Server, *, is_alone: bool = False, origin: Lost | Fault | None = None
    ) -> None:
        """`origin`: why the batch was divided, if it was lost alone, or had two records without a valid response together."""
        self.batch = batch
        self.server = server
        self.origin = origin
        self.begin(is_alone=is_alone)

    def begin(self, *, is_alone: bool) -> None:
        """Forget the failures, which something else explains, or which led to a search."""
        self.is_alone = is_alone
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
        """The example, if the server is to answer it first: only then does the next failure say something about the records."""
        if not self.failures or self.is_alone:
            return None
        losses = self.losses()
        is_in_doubt = any(one.fault.kind in IN_DOUBT for one in self.failures)
        is_unproven = losses and losses[-1] is not self.failures[-1] and losses[-1].answers == self.server.answers
        is_needed = is_in_doubt or is_unproven
        return self.server.example if is_needed else None

    def fail(self, fault: Fault, *, now: float, is_after_example: bool, first_wait: float) -> None:
        """Take the failure of the latest request into account."""
        server = self.server
        if self.is_explained:
            self.begin(is_alone=False)
        failure = Failure(fault, now, answers=server.answers, is_after_example=is_after_example)
        self.failures.append(failure)
        server.fail(failure, records=len(self.batch))
        wait = self._retries.wait_after(fault, now=now, first_wait=first_wait)
        is_unproven = fault.kind in IN_DOUBT and server.example is None
        self.is_spent = wait is None or (is_unproven and now - self.failures[0].at > _UNPROVEN_SECONDS)
        self.wait = wait or 0.0

    def losses(self) -> list[Failure]:
        """The losses that count: the server has answered another request since the previous one. A timeout says nothing."""
        found: list[Failure] = []
        answers = 0
        for one in self.failures:
            if one.is_loss and one.fault.kind is not FaultKind.TIMEOUT and one.answers > answers:
                found.append(one)
                answers = one.answers
        return found


def next_step(part: Part) -> NextStep:
    """Decide what follows after the latest failure."""
    fault = part.failures[-1].fault
    if fault.is_transient:
        return _step_alone(part) if part.is_alone else _step_without_response(part)
    if fault.kind not in _DIVIDED:
        return NextStep.FAIL
    if len(part.batch) > 1:
        return NextStep.DIVIDE
    if fault.kind not in IN_DOUBT:
        return NextStep.BLAME
    is_repeated = sum(one.fault.kind in IN_DOUBT for one in part.failures) > 1
    if part.server.example is not None:
        return NextStep.BLAME if is_repeated and part.failures[-1].is_after_example else NextStep.SEND
    return NextStep.FAIL if is_repeated and part.is_spent else NextStep.SEND_LATER


def _step_alone(part: Part) -> NextStep:
    """There was no response although nothing else was in flight, and the server answered before."""
    if not part.failures[-1].is_loss:
        return NextStep.FAIL if part.is_spent else NextStep.SEND
    if len(part.batch) > 1:
        return NextStep.DIVIDE
    losses = [one.fault.kind for one in part.failures if one.is_loss]
    may_be_chance = part.was_up and set(losses) != {FaultKind.TIMEOUT}
    return NextStep.BLAME if len(losses) >= (_BLAMED_IF_UP if may_be_chance else _BLAMED) else NextStep.SEND


def _step_without_response(part: Part) -> NextStep:
    server, latest, losses = part.server, part.failures[-1], part.losses()
    closed = [loss for loss in losses if loss.fault.kind is not FaultKind.BUSY]  # retries help against overload
    if sum(not loss.has_survivor for loss in closed) >= _CRASHES or len(closed) >= _LOSSES:
        return NextStep.SEND_ALONE
    if not part.is_spent:
        return NextStep.SEND
    if server.example is not None:
        may_be_cause = latest.fault.kind is FaultKind.TIMEOUT or len(losses) >= _CRASHES
    else:  # a proxy may answer for a server that this batch ends each time, and a part of it may be answered
        may_be_proxy = latest.fault.kind in _OF_A_PROXY and latest.is_loss
        may_be_cause = server.cut_off_at is not None or (len(part.batch) > 1 and may_be_proxy)
    return NextStep.SEND_ALONE if may_be_cause and server.retry_seconds else NextStep.FAIL
