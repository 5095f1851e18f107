"""Decides when a batch is suspected of ending the server's process, by what became of the requests around it. Pure.

If a process ends, all requests in flight are lost, and at most a few are to blame. A server that is down loses requests too, and so
does a server that resets connections at random. So a loss counts only if another request was answered since the previous one, and
it counts more if no request that was in flight at the time was answered.
"""

from dataclasses import dataclass
from typing import Final

from inferrun.plugins import Fault, FaultKind

_CRASHES: Final = 2
"""Losses of a batch with everything else in flight that make it suspect."""

_LOSSES: Final = 4
"""The same while others were answered: one of several processes may end, or a connection at random."""


@dataclass(eq=False)
class Loss:
    """A request that got no response."""

    at: float
    """Time of the event loop."""

    in_flight: int
    """Requests that were in flight at that time and have not ended yet."""

    has_survivor: bool = False
    """Whether one of them was answered."""

    @property
    def is_crash(self) -> bool:
        """Whether everything in flight was lost."""
        return self.in_flight == 0 and not self.has_survivor


class Witnesses:
    """All requests: how many were answered, and which were in flight when one was lost."""

    def __init__(self) -> None:
        self.answers = 0
        self.cut_off_at: float | None = None
        """When the server closed a connection instead of answering, unless it has answered something since; the first time."""

        self._in_flight = 0
        self._open: list[Loss] = []

    def begin(self) -> None:
        """Count a request that is sent."""
        self._in_flight += 1

    def end(self, *, started: float, is_answered: bool) -> None:
        """Count a request that ended."""
        self._in_flight -= 1
        if is_answered:
            self.add_answer(started)
        if self._open:
            self._tell(started, is_answered=is_answered)

    def add_answer(self, started: float) -> None:
        """Count a response. One to a request that was in flight when a connection was closed does not say that it is back."""
        self.answers += 1
        if self.cut_off_at is not None and started >= self.cut_off_at:
            self.cut_off_at = None

    def cut_off(self, now: float) -> None:
        """Take into account that the server closed a connection."""
        if self.cut_off_at is None:
            self.cut_off_at = now

    def loss(self, now: float) -> Loss:
        """Remember a request that was lost now; it has ended."""
        loss = Loss(now, self._in_flight)
        if loss.in_flight:
            self._open.append(loss)
        return loss

    def _tell(self, started: float, *, is_answered: bool) -> None:
        for loss in self._open:
            if started < loss.at:
                loss.in_flight -= 1
                loss.has_survivor |= is_answered
        self._open = [loss for loss in self._open if loss.in_flight > 0]


class Suspicion:
    """The losses of one batch."""

    def __init__(self, witnesses: Witnesses) -> None:
        self._witnesses = witnesses
        self._losses: list[Loss] = []
        self._rejections = 0
        self._answers = 0
        self._unproven = 0
        self.was_cut_off = False
        """Whether the server accepted one of the requests and closed the connection."""

    def add(self, fault: Fault, *, now: float) -> None:
        """Take a fault into account; one that tells when to come back, or was never sent, says nothing about the records."""
        if not fault.is_transient or fault.kind is FaultKind.TIMEOUT or fault.retry_after is not None:
            return
        if self._witnesses.answers == self._answers:
            self._unproven += 1
        elif fault.was_sent:
            self._answers, self._unproven = self._witnesses.answers, 0
            if fault.kind is FaultKind.BUSY:
                self._rejections += 1
            else:
                self._losses.append(self._witnesses.loss(now))
        if fault.kind is FaultKind.LOST:
            self.was_cut_off = True
            self._witnesses.cut_off(now)

    @property
    def needs_proof(self) -> bool:
        """Whether another record should be sent first: only if it is answered, the next loss says something."""
        return self._unproven > 0 and self._count > 0 and self._witnesses.answers == self._answers

    @property
    def is_repeated(self) -> bool:
        """Whether requests were lost, or rejected for overload, although others were answered in between."""
        return self._count >= _CRASHES

    @property
    def is_strong(self) -> bool:
        """Whether the batch should be sent while nothing else is in flight. Rejections for overload do not count: retries help."""
        return sum(loss.is_crash for loss in self._losses) >= _CRASHES or len(self._losses) >= _LOSSES

    @property
    def _count(self) -> int:
        return len(self._losses) + self._rejections
