"""Finds how many requests to send at a time, by trials of more and of fewer. Pure.

The algorithm is PCC (Dong et al., "PCC: Re-architecting Congestion Control for Consistent High
Performance", NSDI 2015) with the number of requests in flight in place of a sending rate. The
number doubles while its utility rises. After that, twice as many and half as many are tried in
turns, and the number with the highest utility is kept. Utility is the throughput less a price for
requests in flight, because requests that only wait at the server are of no use. The throughput at a
level is the number of requests in flight divided by their mean time (Little's law). It counts
records, so that requests of different sizes can be compared.

Overload lowers the number at once, as AIMD does (Chiu and Jain, 1989): several rejections (429,
503) almost in a row, or a timeout.
"""

import math
from dataclasses import dataclass
from typing import Final

_PRICE: Final = 0.15
"""Twice the requests must give 11 % more throughput (2 ** 0.15)."""

_SPARE: Final = 2
"""Requests beyond the level at which growth ends: one waits at the server while a response is on
its way, and one is for jitter."""

_FEWEST: Final = 16
"""Requests of a measurement; at least twice the requests in flight. With fewer, fast responses
would count too much: they come first."""

_FIRST_INTERVAL, _LONGEST_INTERVAL = 2, 32
"""Measurements between two trials, doubled with each trial that changes nothing, and again if the
server has rejected more. In the end half the requests are sent during one of 64 measurements, and a
full server rejects five in 64: each costs less than 1 %."""

_OVERLOADED: Final = 5
_RELIEF: Final = 1 / 3
"""Rejections that show an overload, less this much for each other request sent meanwhile: more than
a quarter of the requests is rejected. If one in ten fails at random, as a walk with these steps it
gets so far once in 2,000 requests."""

_DECREASE: Final = 0.9
"""Share of the requests in flight that is kept after an overload. The next trial shows whether
there may be more."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request: as one of how many it was sent, and during which measurement."""

    in_flight: int
    measurement: int


class _Measurement:
    """The successful requests at one level."""

    def __init__(self) -> None:
        self.count = self.in_flight = self.records = self.rejected = 0
        self.seconds = 0.0

    def utility(self, *, price: float = _PRICE) -> float:
        """The throughput; less the share of rejected requests, which were in flight as well, and
        the price of those in flight."""
        level = self.in_flight / self.count
        accepted = self.count / (self.count + self.rejected)
        return accepted * level * self.records / max(self.seconds, 1e-9) / math.pow(level, price)


class ConcurrencyLimit:
    """The number of requests that may be in flight. It rises by `grow` only, one at a time, so that
    a rejection can stop it."""

    def __init__(self, *, start: int, maximum: int, first: int = 0) -> None:
        self.number = min(start, maximum)
        self._maximum = maximum
        self._level = min(first or start, maximum)
        """The best number known; at the beginning `first`, which is measured first, or `start`."""

        self._target = self._level
        """The number that is measured: the best one, twice as many, or half as many."""

        self._measured = _Measurement()
        self._measurements = 0
        self._usual: _Measurement | None = None
        """The latest measurement at the best number."""

        self._is_growing = True
        """Whether no trial of more has failed yet, since the start, the latest success of one, or
        the latest overload."""

        self._is_next_higher = True
        self._interval = _FIRST_INTERVAL
        self._until_trial = 0
        self._pressure = 0.0
        """The latest rejections, less the other requests."""

        self._ceiling = maximum
        """What was less than the level at which the latest overload was seen."""

    @property
    def may_grow(self) -> bool:
        """Whether the number is below its target."""
        return self.number < self._target

    def grow(self) -> None:
        """Raise the number by one, unless the latest request was rejected."""
        self.number += self.may_grow and self._pressure < 1

    def ticket(self, in_flight: int) -> Ticket:
        """Describe a request that is about to be sent as one of `in_flight`."""
        # It counts as admitted until it is rejected, because a response may take a thousand times
        # as long as a rejection.
        self._pressure = max(0.0, self._pressure - _RELIEF)
        return Ticket(in_flight, self._measurements)

    def measured(self, ticket: Ticket, *, records: int, seconds: float) -> None:
        """Note how long a request took. Not called for one with an unusual number of records."""
        if ticket.measurement != self._measurements or 4 * ticket.in_flight <= 3 * self._target:
            return
        measured = self._measured
        measured.count += 1
        measured.in_flight += ticket.in_flight
        measured.records += records
        measured.seconds += seconds
        if measured.count >= max(_FEWEST, 2 * self._target):
            self._judge(measured)

    def rejected(self, ticket: Ticket) -> bool:
        """Note a rejection because of load, such as 429 and 503. Returns whether nothing should be
        sent for a while."""
        if ticket.measurement == self._measurements:
            self._pressure += 1 + _RELIEF
            self._measured.rejected += 1
            admitted = ticket.in_flight - 1
            if self._pressure >= _OVERLOADED and admitted >= self._level:
                if self._is_growing:
                    self._level = max(self._level, min(admitted, self._ceiling))
                self._interval *= 2
                self._end_trial()
            elif self._pressure >= _OVERLOADED:
                self._fall(max(1, min(admitted, int(_DECREASE * self._level))))
        return ticket.in_flight == 1

    def timed_out(self, ticket: Ticket) -> None:
        """Halve the number, once for all requests that were sent at the same level: the server has
        far too much to do."""
        if ticket.measurement == self._measurements:
            self._fall(max(1, self.number // 2))

    def _judge(self, measured: _Measurement) -> None:
        """End a measurement."""
        usual, is_higher = self._usual, self._target > self._level
        if self._target == self._level or usual is None:
            self._usual = measured
            if self._until_trial > 0:
                self._begin(self._level, until_trial=self._until_trial - 1)
            else:
                self._try()
        elif measured.utility() > usual.utility():
            self._level, self._usual = self._target + (0 if is_higher else _SPARE), measured
            self._interval, self._is_growing, self._is_next_higher = (
                _FIRST_INTERVAL,
                is_higher,
                is_higher,
            )
            self._ceiling = self._maximum
            self._try()
        else:
            if is_higher and self._is_growing:
                rise = max(1.0, measured.utility(price=0) / usual.utility(price=0))
                self._level = min(self._target, math.ceil(self._level * rise) + _SPARE)
            self._end_trial()

    def _try(self) -> None:
        """Begin the next trial: of more while that helps, otherwise of more and of fewer in
        turns."""
        target = (
            min(2 * self._level, self._maximum)
            if self._is_next_higher
            else max(1, self._level // 2)
        )
        self._is_next_higher = self._is_growing or not self._is_next_higher
        if target == self._level:
            self._end_trial()
        else:
            self._begin(target)

    def _end_trial(self) -> None:
        """Return to the best number."""
        self._interval = min((1 if self._is_growing else 2) * self._interval, _LONGEST_INTERVAL)
        self._is_growing = False
        self._begin(self._level, until_trial=self._interval)

    def _fall(self, level: int) -> None:
        self._ceiling = max(1, self._level - 1)
        self._level, self._usual = min(self._level, level), None
        self._interval, self._is_growing, self._is_next_higher = (
            max(_FIRST_INTERVAL, self._interval // 2),
            True,
            True,
        )
        self._begin(self._level, until_trial=self._interval)

    def _begin(self, target: int, *, until_trial: int = 0) -> None:
        """Begin a measurement. Requests that were sent before say nothing about it."""
        self._target, self.number = target, min(self.number, target)
        self._measured, self._until_trial = _Measurement(), until_trial
        self._measurements += 1
        self._pressure = 0.0
