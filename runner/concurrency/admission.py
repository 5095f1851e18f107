"""Learns from rejections (429, 503) how many requests a server admits at a time. Pure.

A request that is rejected as one of n in flight says that the server may admit only n - 1: that is the cap from then on. After a
while one more request is tried. If it is rejected, the cap is confirmed, and each time it takes longer until the next trial, so
that few requests are rejected. If two are accepted, the cap rises, in steps that double.

Rejections that have nothing to do with the number of requests are recognised by their share among the requests that should have
been admitted. Above a few percent they no longer change the cap, unless most requests are rejected.
"""

from typing import Final

TOLERATED: Final = 0.02
"""Share of rejections below the cap above which they are not caused by the number of requests."""

OVERLOADED: Final = 0.5
"""Share of rejections among the latest requests that shows an overload nevertheless, if it is twice the usual share."""

_SHARE_WEIGHT: Final = 1 / 64
_RECENT_WEIGHT: Final = 1 / 16

_FREQUENT: Final = 2
"""Refusals after which trials become rare; before, there is one per round trip."""

_SHORTEST_PAUSE: Final = 2
_PAUSE: Final = 128
_LONGEST_PAUSE: Final = 1024
"""Accepted requests between two trials; doubled with each refusal. In the end one request in a thousand is a trial."""

_ACCEPTED: Final = 2
"""Accepted requests over the cap that refute it. One may have been sent just when another one had been completed."""


class Admission:
    """The cap."""

    def __init__(self) -> None:
        self.cuts = 0
        """Number of times that a rejection lowered the cap. A request that was sent before says nothing about the cap."""

        self._cap: int | None = None
        self._step = 0
        """Requests over the cap that are tried."""

        self._share = 0.0
        self._recent = 0.0
        self._refusals = 0
        self._accepted_over = 0
        self._refused_over = 0
        self._until_trial = 0

    @property
    def limit(self) -> int | None:
        """The number of requests that may be in flight; None if no limit is known."""
        return None if self._cap is None else self._cap + self._step

    def is_refuted(self, limit: int) -> bool:
        """Whether accepted requests show that the cap does not matter for a limit."""
        return self._cap is not None and self._cap >= limit and self._accepted_over >= _ACCEPTED

    def lift(self) -> None:
        """Forget the cap."""
        self._cap, self._step, self._accepted_over = None, 0, 0

    def accept(self, in_flight: int, *, is_current: bool) -> None:
        """Take a response into account; `is_current` if the request was sent after the latest cut."""
        if not is_current:
            return
        self._recent -= _RECENT_WEIGHT * self._recent
        if self._cap is not None and in_flight > self._cap:
            self._accept_over(self._cap, in_flight)
            return
        self._share -= _SHARE_WEIGHT * self._share
        if self._cap is not None and not self._step:
            self._until_trial -= 1
            if self._until_trial <= 0:
                self._step, self._accepted_over, self._refused_over = 1, 0, 0

    def reject(self, in_flight: int, *, is_current: bool) -> None:
        """Take a rejection into account."""
        if self._cap is not None and in_flight > self._cap:
            if is_current and self._step:
                self._refuse(self._cap)
            return
        if is_current:
            self._recent += _RECENT_WEIGHT * (1 - self._recent)
            self._share += _SHARE_WEIGHT * (1 - self._share)
        if self._recent >= max(OVERLOADED, 2 * self._share):
            self._refusals = 0
            self._cut(in_flight * 3 // 4)
        elif self._share <= TOLERATED:
            self._cut(in_flight - 1)

    def _accept_over(self, cap: int, in_flight: int) -> None:
        self._accepted_over += 1
        if self._accepted_over < _ACCEPTED:
            return
        self._cap = in_flight
        self._refusals //= 2
        if in_flight >= cap + self._step:
            self._step *= 2

    def _refuse(self, cap: int) -> None:
        """End the trial, unless other rejections are so frequent that this may be one of them."""
        self._refused_over += 1
        if self._share > TOLERATED and self._refused_over <= self._accepted_over + 1:
            return
        self._refusals += 1
        self._cut(cap)

    def _cut(self, level: int) -> None:
        self._cap = max(1, level)
        self._step, self._accepted_over = 0, 0
        self.cuts += 1
        is_rare = self._refusals > _FREQUENT
        pause = min(_PAUSE << (self._refusals - _FREQUENT - 1), _LONGEST_PAUSE) if is_rare else 0
        self._until_trial = max(pause, self._cap, _SHORTEST_PAUSE)
