"""Finds the concurrency beyond which the throughput of a server no longer rises. Pure.

It begins like TCP: one more request with each response, so the limit doubles with each round trip. The throughput of each level is
compared with that of half the level. The limit does not wait for that: it proceeds to the next level, and no further. If the
throughput no longer rises, the knee is known: the level before, corrected by how much the throughput has still risen. The limit is
the knee and two more, so that no worker waits for the next request. From then on the throughput is compared with what it was. A
higher level is tried from time to time, less and less often, and at once if the throughput at the same level has risen; a lower one
if it has fallen, or if the requests are much slower than at the beginning.

The throughput is that of records, so requests of different sizes can be compared.
"""

import math
from enum import Enum, auto
from typing import Final

from runner.concurrency.measurement import Measurement, is_rising

RISES: Final = 0.15
"""Elasticity from which the throughput counts as rising: 11 % more with twice the requests."""

FALLS: Final = 0.2
"""Elasticity up to which the throughput counts as equal at a lower level."""

SPARE: Final = 2
"""Requests beyond the knee: the next one waits at the server while a response is on its way, and one more for jitter."""

_SPARE_SHARE: Final = 1 / 16
"""The same as a share of the knee, which is not known exactly."""

_FEW: Final = 6
_SOME: Final = 32
_MANY: Final = 64
_PATIENCE: Final = 4
"""Requests of a measurement: at least; and at most, if the values scatter too much for a decision: while growing, and in a trial,
where it may also be several times the limit."""

_VAGUE: Final = 16
"""Requests of a level that are too few to compare another one with, if their times scatter."""

_KEPT: Final = 8
"""Rounds that the usual throughput is the mean of."""

_LIKELY, _CERTAIN, _VERY_CERTAIN = 1.0, 1.5, 2.5
"""Standard errors of a difference that is decided upon: while growing, for a higher limit, and for a lower one."""

_FEW_IN_FLIGHT: Final = 3
"""Requests in flight at which there is hardly a queue."""

_SAME_LEVEL: Final = 0.1
"""Relative difference up to which two levels are compared as equal."""

_CHANGED: Final = 0.05
"""Relative change of the throughput at the same level that shows another capacity, twice in a row."""

_FIRST_INTERVAL, _LONGEST_INTERVAL = 4, 16
"""Rounds between two trials of a higher level; doubled with each one in vain."""

_LOWER: Final = 6
_LOW: Final = 8
"""Of that many trials one is of half the limit, if that is not low anyway: values that scatter raise it little by little."""

_SMALLEST_STEP: Final = 4
"""A trial of a higher level has at least that many more requests in flight: fewer would hardly change the throughput."""

_SCATTERED: Final = 0.8
"""Relative standard deviation of the times above which half the limit is tried only from time to time. What it shows is often
wrong then, because the fast responses come first, and it costs throughput."""

_EXCESS, _EXCESS_REQUESTS = 1.5, 4
"""A limit over the predicted knee times this, and more, leads to the trial of a lower one."""


class Phase(Enum):
    """What the present round is for."""

    GROWING = auto()
    STEADY = auto()
    HIGHER = auto()
    LOWER = auto()


class Search:
    """The limit as far as the throughput decides it."""

    def __init__(self, *, start: int, maximum: int) -> None:
        self._maximum = maximum
        self.limit = min(start, maximum)
        """The number of requests that may be in flight."""

        self.round = 0
        """Number of the round; requests of earlier ones say nothing about the present limit."""

        self._phase = Phase.GROWING
        self._top = self.limit
        """While growing: the highest number of requests in flight of the present level; that of the next one is twice as high."""

        self._due = _due_of(self._top)
        """While growing: requests of the present level at which it is compared."""

        self._ahead = Measurement()
        """While growing: requests that were already sent at a higher level."""

        self._stragglers = 0
        """While growing: requests that were sent at a lower level."""
        self._kept = self.limit
        """The limit to which a trial returns."""

        self._measured = Measurement()
        self._skipped = 0
        """Responses that are ignored at the beginning of a trial: the fastest ones, which come first."""

        self._below: Measurement | None = None
        """The highest level known up to which the throughput has risen."""

        self._lowest: Measurement | None = None
        """The lowest level known, where requests are fastest; None if a lower level than the present one is not worth a trial."""

        self._usual: Measurement | None = None
        """The throughput at the present limit."""

        self._has_risen = False
        self._is_verified = False
        """Whether the throughput is known to be lower at a lower limit. If not, half the limit is tried soon. One rise is no
        proof: while a queue at the server grows, requests are still as fast as before."""

        self._is_last = False
        """Whether the present trial is of the level below which the throughput falls in any case."""

        self._changes = 0
        self._rounds = 0
        self._trials = 0
        self._interval = _FIRST_INTERVAL

    def observe(self, *, in_flight: int, records: int, seconds: float) -> None:
        """Take a response to a request of this round into account."""
        if self._skipped:
            self._skipped -= 1
            return
        if self._phase is Phase.GROWING:
            self._observe_growth(in_flight=in_flight, records=records, seconds=seconds)
            return
        self._measured.add(in_flight=in_flight, records=records, seconds=seconds)
        match self._phase:
            case Phase.STEADY:
                self._judge_steady(self._measured)
            case Phase.HIGHER:
                self._judge_higher(self._measured)
            case Phase.LOWER:
                self._judge_lower(self._measured)

    def halve(self) -> None:
        """Take a timeout into account: the server has far too much to do."""
        self._below, self._is_verified = None, True
        self._hold(max(1, self.limit // 2))

    def hurry(self) -> None:
        """Try a higher level soon: something else that limited the requests has changed."""
        self._interval = 1

    def _observe_growth(self, *, in_flight: int, records: int, seconds: float) -> None:
        if 2 * in_flight >= self.limit:
            self.limit = min(self.limit + 1, 2 * self._top, self._maximum)
        if 2 * in_flight <= self._top and self._below is not None:
            self._stragglers += 1
        else:
            level = self._ahead if in_flight > self._top else self._measured
            level.add(in_flight=in_flight, records=records, seconds=seconds)
        while self._phase is Phase.GROWING and self._has_decided_growth():
            pass

    def _has_decided_growth(self) -> bool:
        """Compare a level with the one below, and go on to the next one; False if it is too early."""
        measured, below = self._measured, self._below
        if measured.count < self._due:
            if self._stragglers > max(_SOME, 4 * self.limit):
                self._hold(self.limit)  # something else limits the requests: the reader, or the admission
                return True
            if self._ahead.count < self._due:
                return False
            measured.include(self._ahead)
            self._ahead = Measurement()
            self._top *= 2
        while self._due <= measured.count:
            self._due *= 2
        if below is None:
            self._lowest = measured
            self._grow(measured)
            return True
        return self._has_compared(measured, below)

    def _has_compared(self, measured: Measurement, below: Measurement) -> bool:
        rises = is_rising(below, measured, elasticity=RISES, certainty=_LIKELY)
        if rises is None and measured.count < max(_SOME, self._top):
            return False
        is_vague = below.count < _VAGUE and below.error > _SAME_LEVEL
        if rises or is_vague or (rises is None and measured.throughput > below.throughput):
            self._is_verified = self._is_verified or below.level < _FEW_IN_FLIGHT or self._has_risen
            self._has_risen = True
            self._grow(measured)  # if in doubt: to stay too low costs throughput, too high only time in a queue
        else:
            knee = below.level * max(1.0, measured.throughput / below.throughput)
            self._hold(min(self.limit, _with_spare(knee)))
        return True

    def _grow(self, below: Measurement) -> None:
        """Go on to the next level. Requests that are already in flight count."""
        self._below = below
        self._interval = _FIRST_INTERVAL
        if self._phase is not Phase.GROWING:
            self._begin(Phase.GROWING, self.limit)
            self._top = self.limit
        if self._top >= self._maximum:
            self._hold(self.limit)
            return
        self._measured, self._ahead = self._ahead, Measurement()
        self._top *= 2
        self._due = _due_of(self._top)
        self._stragglers = 0

    def _hold(self, limit: int) -> None:
        self._usual, self._changes, self._rounds = None, 0, 0
        self._begin(Phase.STEADY, limit)

    def _begin(self, phase: Phase, limit: int) -> None:
        self._phase, self.limit = phase, limit
        self._measured, self._ahead = Measurement(), Measurement()
        self._skipped = limit if phase in {Phase.HIGHER, Phase.LOWER} else 0
        self.round += 1

    def _judge_steady(self, measured: Measurement) -> None:
        if measured.count < max(_FEW, 2 * self.limit):
            return
        usual = self._usual
        if usual is None or _is_above(measured, usual) or _is_above(usual, measured):
            self._usual, self._changes = measured, 0
        elif self._has_changed(measured.throughput / usual.throughput, margin=max(_CHANGED, 3 * measured.error)):
            self._follow(measured, usual)
            return
        elif usual.count >= _KEPT * measured.count:
            self._usual = measured
        else:
            usual.include(measured)
        self._next_steady(measured)

    def _has_changed(self, ratio: float, *, margin: float) -> bool:
        """Whether the throughput at the same level differs, twice in a row in the same direction."""
        change = 1 if ratio > 1 + margin else -1 if ratio < 1 / (1 + margin) else 0
        is_repeated, self._changes = change != 0 and change == self._changes, change
        return is_repeated

    def _follow(self, measured: Measurement, usual: Measurement) -> None:
        self._usual, self._changes = measured, 0
        if measured.throughput > usual.throughput:
            self._grow(measured)
        elif measured.scatter < _SCATTERED:
            self._is_verified = False
            self._try_lower(self.limit // 2)
        else:
            self._measured = Measurement()

    def _next_steady(self, measured: Measurement) -> None:
        self._rounds += 1
        is_scattered = measured.scatter >= _SCATTERED
        knee = None if is_scattered else self._predicted_knee(measured)
        if not self._is_verified and self.limit > _LOW and not is_scattered:
            self._try_lower(self.limit // 2)
        elif knee is not None and self.limit > _EXCESS * knee + _EXCESS_REQUESTS:
            self._is_last = True
            self._try_lower(_with_spare(knee))
        elif self._rounds >= self._interval:
            self._trials += 1
            if self._trials % _LOWER == 0 and self.limit > _LOW:
                self._try_lower(self.limit // 2)
            else:
                self._try_higher(min(self._maximum, self.limit + max(_SMALLEST_STEP, self.limit // 2)))
        else:
            self._measured = Measurement()

    def _predicted_knee(self, measured: Measurement) -> float | None:
        """The level at which requests that are as fast as at the lowest level would give the present throughput."""
        lowest = self._lowest
        if lowest is None or not _is_above(measured, lowest):
            return None
        return lowest.level * max(1.0, measured.throughput / lowest.throughput)

    def _try_lower(self, limit: int) -> None:
        if 0 < limit < self.limit:
            self._kept = self.limit
            self._begin(Phase.LOWER, limit)
        else:
            self._measured = Measurement()

    def _try_higher(self, limit: int) -> None:
        if limit > self.limit:
            self._kept = self.limit
            self._begin(Phase.HIGHER, limit)
        else:
            self._measured = Measurement()

    def _judge_higher(self, measured: Measurement) -> None:
        if not self._is_due(measured, first=max(2 * _FEW, 2 * self.limit)):
            return
        usual = self._usual
        if usual is not None and _is_above(measured, usual):
            rises = is_rising(usual, measured, elasticity=RISES, certainty=_CERTAIN)
            if rises is None and self._is_patient(measured):
                return
            if rises:
                self._grow(measured)
                return
        self._hold(self._kept)
        self._interval = min(2 * self._interval, _LONGEST_INTERVAL)

    def _judge_lower(self, measured: Measurement) -> None:
        if not self._is_due(measured, first=max(2 * _FEW, 2 * self.limit)):
            return
        usual, falls = self._usual, None
        if usual is not None and _is_above(usual, measured):
            falls = is_rising(measured, usual, elasticity=FALLS, certainty=_VERY_CERTAIN)
            if falls is None and self._is_patient(measured):
                return
        self._lowest = measured if falls is False else None
        self._is_verified = falls is not False or self.limit <= SPARE or self._is_last
        self._is_last = False
        self._hold(min(self._kept, self.limit + SPARE) if falls is False else self._kept)

    def _is_due(self, measured: Measurement, *, first: int) -> bool:
        """Whether it is time for a decision: after the first requests, and each time that their number has doubled.

        A decision that is tried after each request would sooner or later find what is not there.
        """
        times, left = divmod(measured.count, first)
        return left == 0 and times.bit_count() == 1

    def _is_patient(self, measured: Measurement) -> bool:
        return measured.count < max(_MANY, _PATIENCE * self.limit)


def _with_spare(knee: float) -> int:
    return math.ceil(knee) + max(SPARE, round(knee * _SPARE_SHARE))


def _due_of(top: int) -> int:
    """Requests after which a level is compared for the first time: few at the beginning, when each level has few."""
    return max(2, min(top, max(_FEW, top // 2)))


def _is_above(measured: Measurement, other: Measurement) -> bool:
    return measured.level > other.level * (1 + _SAME_LEVEL)
