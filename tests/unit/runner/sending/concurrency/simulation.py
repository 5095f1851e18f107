"""A client and a model server in simulated time: the client keeps as many requests in flight as the
limit allows.

The server has workers and a queue, or processes all requests at once, each slower the more there
are. It may admit only some of them, and fail some at random. Nothing here takes real time, so the
results are the same on every machine.
"""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from inferrun_runner.sending.concurrency import ConcurrencyLimit, Ticket

Times = Callable[[random.Random], float]
"""Draws the service time of a request."""

REJECTION_SECONDS = 0.0005
LINK_SECONDS = 0.0002
"""Seconds that a request and its response spend between client and server, together."""

RETRY_SECONDS = 0.1


def constant(seconds: float) -> Times:
    """The same time for all requests."""
    return lambda _: seconds


def uniform(seconds: float) -> Times:
    """Times between half and one and a half of the mean."""
    return lambda chance: chance.uniform(seconds / 2, 3 * seconds / 2)


def exponential(seconds: float) -> Times:
    """Times that scatter much."""
    return lambda chance: chance.expovariate(1 / seconds)


@dataclass
class Server:
    """What the server does; a test may change it on the way."""

    workers: int
    time: Times
    admitted: int | None = None
    """Requests that it admits at a time; others are rejected."""

    rejected: float = 0.0
    """Share of requests that are rejected for other reasons."""

    slowdown: float | None = None
    """With a number n instead of workers: all requests at once, each slower by 1/n for every other
    one."""

    busy: int = 0
    queue: list["Sent"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request on its way."""

    ticket: Ticket
    at: float


@dataclass
class Client:
    """Sends requests in simulated time and counts."""

    limit: ConcurrencyLimit
    server: Server
    seed: int = 1
    jitter: float = 0.0
    """Mean of the seconds by which a message may be late, as on a machine that has too much to
    do."""

    now: float = 0.0
    in_flight: int = 0
    completed: int = 0
    refused: int = 0
    limits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311  not for security
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._is_pacing = False

    def run(self, *, requests: int, until: float = math.inf) -> float:
        """Send requests until this many have succeeded, and return the rate at which they did.
        Raises TimeoutError."""
        began, before = self.now, self.completed
        while self.completed - before < requests:
            self._send()
            if self.now > until:
                raise TimeoutError
            self.now, _, action = heapq.heappop(self._events)
            action()
        return requests / (self.now - began)

    def _send(self) -> None:
        while self.in_flight < self.limit.number:
            self.in_flight += 1
            sent = Sent(self.limit.ticket(self.in_flight), self.now)
            self._after(self._late(LINK_SECONDS / 2), self._arrival(sent))

    def _arrival(self, sent: Sent) -> Callable[[], None]:
        def arrive() -> None:
            server = self.server
            admitted = server.admitted
            is_full = admitted is not None and server.busy + len(server.queue) >= admitted
            if is_full or self._chance.random() < server.rejected:
                self._after(self._late(REJECTION_SECONDS), self._rejection(sent.ticket))
            else:
                server.queue.append(sent)
                self._work()

        return arrive

    def _work(self) -> None:
        server = self.server
        while server.queue and (server.slowdown is not None or server.busy < server.workers):
            sent = server.queue.pop(0)
            server.busy += 1
            seconds = server.time(self._chance)
            if server.slowdown is not None:
                seconds *= 1 + server.busy / server.slowdown
            self._after(seconds, self._completion(sent))

    def _completion(self, sent: Sent) -> Callable[[], None]:
        def complete() -> None:
            self.server.busy -= 1
            self._work()
            self._after(self._late(LINK_SECONDS / 2), receive)

        def receive() -> None:
            self.in_flight -= 1
            self.completed += 1
            seconds = self.now - sent.at
            self.limit.measured(sent.ticket, records=1, seconds=seconds)
            self.limits.append(self.limit.number)
            self._pace(min(max(seconds / 16, 0.002), 0.05))

        return complete

    def _pace(self, pause: float) -> None:
        """Raise the limit as the sender does."""

        def grow() -> None:
            self._is_pacing = False
            self.limit.grow()
            self._pace(pause)

        if self.limit.may_grow and not self._is_pacing:
            self._is_pacing = True
            self._after(pause, grow)

    def _rejection(self, ticket: Ticket) -> Callable[[], None]:
        def reject() -> None:
            self.in_flight -= 1
            self.refused += 1
            if self.limit.rejected(ticket):
                self.in_flight += 1  # nothing else is sent for a while
                self._after(RETRY_SECONDS, resume)

        def resume() -> None:
            self.in_flight -= 1

        return reject

    def _late(self, seconds: float) -> float:
        return seconds + (self._chance.expovariate(1 / self.jitter) if self.jitter else 0.0)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now + seconds, self._order, action))
