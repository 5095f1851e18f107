"""The throughput of a server at one level of concurrency, from single requests. Pure.

By Little's law the throughput is the number of requests in flight divided by the mean time of a request. Unlike responses
counted in a window of time, that does not depend on where the window begins: with four workers, responses arrive four at a time.
"""

import math


class Measurement:
    """The requests that were sent at one level."""

    def __init__(self) -> None:
        self.count = 0
        self._in_flight = 0
        self._records = 0
        self._seconds = 0.0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, *, in_flight: int, records: int, seconds: float) -> None:
        """Add a request that succeeded."""
        self.count += 1
        self._in_flight += in_flight
        self._records += records
        self._seconds += seconds
        cost = seconds / records
        change = cost - self._mean
        self._mean += change / self.count
        self._squares += change * (cost - self._mean)

    def include(self, other: "Measurement") -> None:
        """Add the requests of another measurement."""
        count, change = self.count + other.count, other._mean - self._mean
        self._squares += other._squares + change * change * self.count * other.count / count
        self._mean += change * other.count / count
        self.count = count
        self._in_flight += other._in_flight
        self._records += other._records
        self._seconds += other._seconds

    @property
    def level(self) -> float:
        """The mean number of requests in flight."""
        return self._in_flight / self.count

    @property
    def throughput(self) -> float:
        """Records per second."""
        return self.level * self._records / max(self._seconds, 1e-9)

    @property
    def error(self) -> float:
        """The relative standard error of the throughput."""
        if self.count < 2 or self._mean <= 0:
            return math.inf
        return math.sqrt(self._squares / (self.count - 1) / self.count) / self._mean


def is_rising(before: Measurement, after: Measurement, *, elasticity: float, certainty: float) -> bool | None:
    """Whether the throughput has risen by more than this elasticity; None if the values scatter too much to tell.

    An elasticity of 1 is in proportion to the level, 0 not at all. The difference must be `certainty` standard errors.
    """
    gain = math.log(after.throughput / before.throughput) - elasticity * math.log(after.level / before.level)
    return None if abs(gain) < certainty * math.hypot(before.error, after.error) else gain > 0
