"""What the sender tells a concurrency limit, and a limit that is fixed. Pure."""

from dataclasses import dataclass
from typing import Final, Protocol

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
"""Seconds between two raises of a limit. A rejection, which costs the server nothing, usually arrives within a millisecond."""

_SHARE: Final = 1 / 16
"""The same as a share of the time of a request, within which the limit may have doubled."""


def pause_for(seconds: float) -> float:
    """Return the seconds between two raises of the limit, if a request takes `seconds`."""
    return min(max(_SHARE * seconds, _SHORTEST_PAUSE), _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request as it was sent."""

    in_flight: int
    """Requests in flight when it was sent, itself included."""

    round: int = 0
    """Number of the measurement during which it was sent."""

    cut: int = 0
    """Number of times that rejections had changed the limit before."""


class ConcurrencyLimit(Protocol):
    """The number of requests that may be in flight. It rises by `grow` only, so that a rejection can stop it."""

    @property
    def number(self) -> int:
        """The limit; at least 1."""
        ...

    @property
    def may_grow(self) -> bool:
        """Whether the limit is below what it should be."""
        ...

    def grow(self) -> None:
        """Raise the limit by one."""
        ...

    def ticket(self, in_flight: int) -> Ticket:
        """Describe a request that is about to be sent as one of `in_flight`."""
        ...

    def accepted(self, ticket: Ticket) -> None:
        """Note that a request was not rejected."""
        ...

    def measured(self, ticket: Ticket, *, records: int, seconds: float) -> None:
        """Note how long a request took. Not called for one with an unusual number of records."""
        ...

    def rejected(self, ticket: Ticket) -> bool:
        """Note a rejection because of load, such as 429 and 503. Returns whether nothing should be sent for a while."""
        ...

    def timed_out(self, ticket: Ticket) -> None:
        """Note that there was no response in time."""
        ...


class FixedLimit:
    """Always the same number; with `start`, fewer to begin with, and one more with each success."""

    def __init__(self, number: int, *, start: int = 0) -> None:
        self._most = number
        self.number = min(start, number) if start else number
        self.may_grow = False

    def grow(self) -> None:
        """Do nothing; the number is fixed."""

    def ticket(self, in_flight: int) -> Ticket:
        """Describe a request."""
        return Ticket(in_flight)

    def accepted(self, ticket: Ticket) -> None:  # noqa: ARG002  the seam's parameter
        """Allow one more request, if some were withheld at the start."""
        if self.number < self._most:
            self.number += 1

    def measured(self, ticket: Ticket, *, records: int, seconds: float) -> None:
        """Ignore it; the number is fixed."""

    def rejected(self, ticket: Ticket) -> bool:  # noqa: ARG002  the seam's parameter
        """Ignore it; the number is fixed."""
        return False

    def timed_out(self, ticket: Ticket) -> None:
        """Ignore it; the number is fixed."""
