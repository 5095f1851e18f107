"""Learns from rejections (429, 503) how many requests a server admits at a time. Pure.

A request that is rejected as one of n in flight says that the server may admit only n - 1. The next request is sent at once, as
the n-th again: if it is rejected as well, n - 1 is the cap from then on. If nothing else is rejected for a moment, it was a fault.
After a while one more request than the cap is tried. If it is rejected, the cap is confirmed, and each time it takes longer until
the next trial, so that few requests are rejected. If two are accepted, the cap rises, in steps that double.

Such faults are counted. If they are more than a few percent, rejections no longer change the cap, unless most requests are
rejected, and two accepted requests over the cap end it.
"""

from typing import Final

TOLERATED: Final = 0.02
"""Share of rejections below the cap above which they are not caused by the number of requests."""

OVERLOADED: Final = 0.5
"""Share of rejections among the latest requests that shows an overload nevertheless, if it is twice the usual share."""

INTOLERABLE: Final = 0.2
"""Share of rejections that cannot be faults: the requests in flight are not counted as the server counts them, for example because
its responses arrive late. The limit is lowered, and the share is measured anew."""

_ENOUGH: Final = 32
"""Requests from which the share is known."""

_SHARE_WEIGHT: Final = 1 / 64
_RECENT_WEIGHT: Final = 1 / 16

_SHORTEST_PAUSE: Final = 2
_PAUSE: Final = 128
_LONGEST_PAUSE: Final = 1024
"""Accepted requests between two trials: few before the first one, then more, doubled with each refusal. In the end one request in
a thousand is a trial."""

_DOUBTED: Final = 6
"""Pauses between two raises of the limit without a second rejection that show that the first one was a fault."""

_NEXT: Final = 4
"""Requests after a rejection of which another one must be rejected: if a limit is the reason, that is the very next one."""

_BEYOND_DOUBT: Final = 4
"""Rejections in a row with more requests in flight than were ever admitted that show a limit, although there are many faults."""

_ACCEPTED: Final = 2
"""Accepted requests over the cap that refute it. One may have been sent just when another one had been completed."""


class Admission:
    """The cap."""

    def __init__(self) -> None:
        self.cuts = 0
        """Number of times that a rejection lowered the cap. A request that was sent before says nothing about the cap."""

        self._cap: int | None = None
        self._suspect: int | None = None
        """Requests in flight when one was rejected; another rejection makes it the cap."""

        self._pauses = 0
        """Pauses since then."""

        self._good = 0
        """Requests in flight that were admitted while there was no cap."""

        self._step = 0
        """Requests over the cap that are tried."""

        self._top = 0
        """The level that a trial must reach before it continues with twice the step."""

        self._sent = 0
        """Requests since then that were sent at this level."""

        self._seen = 0
        self._share = 0.0
        self._recent = 0.0
        self._refusals = 0
        self._accepted_over = 0
        self._refused_over = 0
        self._until_trial = 0

    @property
    def limit(self) -> int | None:
        """The number of requests that may be in flight; None if no limit is known."""
        known = None if self._cap is None else self._cap + self._step
        return known if self._suspect is None else min(known or self._suspect, self._suspect)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a rejection may be a fault; `wait` must be called from time to time."""
        return self._suspect is not None

    def wait(self) -> None:
        """Take into account that there was a pause without a rejection."""
        self._pauses += 1
        if self._pauses >= _DOUBTED:
            self._acquit()

    def is_refuted(self, limit: int) -> bool:
        """Whether accepted requests show that the cap does not matter for a limit."""
        return self._cap is not None and self._cap >= limit and self._accepted_over >= _ACCEPTED

    def lift(self) -> None:
        """Forget the cap."""
        self._good = self._cap or 0
        self._cap, self._step, self._accepted_over = None, 0, 0

    def send(self, in_flight: int) -> None:
        """Take into account that a request is sent."""
        if self._suspect is not None and in_flight >= self._suspect:
            self._sent += 1

    def accept(self, in_flight: int, *, is_current: bool) -> None:
        """Take a response into account; `is_current` if the request was sent after the latest cut."""
        if not is_current:
            return
        self._recent -= _RECENT_WEIGHT * self._recent
        if self._cap is not None and in_flight > self._cap:
            self._accept_over(in_flight)
            return
        self._seen += 1
        self._share -= max(_SHARE_WEIGHT, 1 / self._seen) * self._share
        if self._cap is None and in_flight > self._good + 1:
            self._good, self._refused_over = in_flight - 1, 0
        if self._cap is not None and not self._step:
            self._until_trial -= 1
            if self._until_trial <= 0:
                self._try(self._cap, 1)

    def reject(self, in_flight: int, *, is_current: bool) -> None:
        """Take a rejection into account."""
        if self._cap is not None and in_flight > self._cap:
            if is_current and self._step:
                self._refuse(self._cap)
            return
        if is_current:
            self._recent += _RECENT_WEIGHT * (1 - self._recent)
        if self._recent >= max(OVERLOADED, 2 * self._share):
            self._refusals = 0
            self._cut(in_flight * 3 // 4)
        elif self._share >= INTOLERABLE and self._seen >= _ENOUGH:
            self._share, self._seen = 0.0, 0
            self._cut(in_flight * 3 // 4)
        elif self._share > TOLERATED:
            self._reject_among_faults(in_flight)
        elif self._suspect is None:
            self._doubt(in_flight)
        elif in_flight >= self._suspect and self._sent <= _NEXT:
            self._cut(self._suspect - 1)
        else:
            self._count_fault()
            self._doubt(max(in_flight, self._suspect))

    def _reject_among_faults(self, in_flight: int) -> None:
        if in_flight <= self._good or self._cap is not None:
            self._count_fault()
            return
        self._refused_over += 1
        if self._refused_over >= _BEYOND_DOUBT:
            self._cut(self._good)

    def _doubt(self, in_flight: int) -> None:
        self._suspect, self._pauses, self._sent = in_flight, 0, 0

    def _acquit(self) -> None:
        self._suspect = None
        self._count_fault()

    def _count_fault(self) -> None:
        self._seen += 1
        self._share += max(_SHARE_WEIGHT, 1 / self._seen) * (1 - self._share)

    def _try(self, cap: int, step: int) -> None:
        self._step, self._top, self._accepted_over, self._refused_over = step, cap + step, 0, 0

    def _accept_over(self, in_flight: int) -> None:
        self._accepted_over += 1
        if self._accepted_over < _ACCEPTED:
            return
        self._cap = in_flight
        self._refusals //= 2
        if in_flight >= self._top:
            self._step *= 2
            self._top = in_flight + self._step

    def _refuse(self, cap: int) -> None:
        """End the trial, unless this is the first one, or other rejections are so frequent that this may be one of them."""
        self._refused_over += 1
        is_vague = self._share > TOLERATED or not self._refusals
        if is_vague and self._refused_over <= self._accepted_over + 1:
            return
        self._refusals += 1
        self._cut(cap)

    def _cut(self, level: int) -> None:
        self._cap = self._good = max(1, level)
        self._suspect, self._refused_over = None, 0
        self._recent = (
            0.0  # responses follow later than rejections, and those to earlier requests do not count any more
        )
        self._step, self._accepted_over = 0, 0
        self.cuts += 1
        longest = _PAUSE if self._share > TOLERATED else _LONGEST_PAUSE
        pause = min(_PAUSE << (self._refusals - 1), longest) if self._refusals else 0
        self._until_trial = max(pause, self._cap, _SHORTEST_PAUSE)
