"""The throughput of a server at one level of concurrency, from single requests. Pure.

By Little's law the throughput is the number of requests in flight divided by the mean time of a request. Unlike responses
counted in a window of time, that does not depend on where the window begins: with four workers, responses arrive four at a time.
"""

import math


class _Scatter:
    """The mean of values and their squared deviations (Welford's algorithm)."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        self._count += 1
        change = value - self._mean
        self._mean += change / self._count
        self._squares += change * (value - self._mean)

    def include(self, other: "_Scatter") -> None:
        count, change = self._count + other._count, other._mean - self._mean
        if count:
            self._squares += other._squares + change * change * self._count * other._count / count
            self._mean += change * other._count / count
            self._count = count

    @property
    def error(self) -> float:
        """The relative standard error of the mean."""
        if self._count < 2 or self._mean <= 0:
            return math.inf
        return math.sqrt(self._squares / (self._count - 1) / self._count) / self._mean


class Measurement:
    """The requests that were sent at one level."""

    def __init__(self) -> None:
        self.count = 0
        self._in_flight = 0
        self._records = 0
        self._seconds = 0.0
        self._costs = _Scatter()
        self._shares = _Scatter()

    def add(self, *, in_flight: int, records: int, seconds: float) -> None:
        """Add a request that succeeded."""
        self.count += 1
        self._in_flight += in_flight
        self._records += records
        self._seconds += seconds
        cost = seconds / records
        self._costs.add(cost)
        self._shares.add(cost / in_flight)

    def include(self, other: "Measurement") -> None:
        """Add the requests of another measurement."""
        self.count += other.count
        self._in_flight += other._in_flight
        self._records += other._records
        self._seconds += other._seconds
        self._costs.include(other._costs)
        self._shares.include(other._shares)

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
        """The relative standard error of the throughput.

        Levels differ within a measurement. That is no error: below the knee the times are equal, beyond it they are in proportion
        to the level.
        """
        return min(self._costs.error, self._shares.error)

    @property
    def scatter(self) -> float:
        """The relative standard deviation of the times."""
        return self.error * math.sqrt(self.count)


def is_rising(before: Measurement, after: Measurement, *, elasticity: float, certainty: float) -> bool | None:
    """Whether the throughput has risen by more than this elasticity; None if the values scatter too much to tell.

    An elasticity of 1 is in proportion to the level, 0 not at all. The difference must be `certainty` standard errors.
    """
    gain = math.log(after.throughput / before.throughput) - elasticity * math.log(after.level / before.level)
    return None if abs(gain) < certainty * math.hypot(before.error, after.error) else gain > 0
