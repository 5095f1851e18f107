"""Statistics of measured values: percentiles, mean and spread. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, minimum and maximum of one value per pass."""

    mean: float
    deviation: float
    minimum: float
    maximum: float
    count: int

    def text(self, *, digits: int = 2, unit: str = "") -> str:
        """`14.21 ± 0.35 (13.80 to 14.70) Jobs/s`; of one measurement `14.21 Jobs/s`."""
        tail = f" {unit}" if unit else ""
        if self.count == 1:
            return f"{self.mean:.{digits}f}{tail}"
        spread = f"± {self.deviation:.{digits}f} ({self.minimum:.{digits}f} to {self.maximum:.{digits}f})"
        return f"{self.mean:.{digits}f} {spread}{tail}"


def spread(values: Sequence[float]) -> Spread:
    """The spread of one or more values."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, min(values), max(values), len(values))


def summary(values: Sequence[float], *, digits: int) -> str:
    """`3.1 (3.0 to 3.4)`: median, minimum and maximum; of one value, the value."""
    median = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return median
    return f"{median} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that is not exceeded by this share (0 to 1)
    of the values."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
