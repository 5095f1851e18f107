"""What a list of measured values says: median, p95, mean and spread. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """One value per pass: their mean, standard deviation, least and greatest."""

    mean: float
    deviation: float
    least: float
    greatest: float

    def text(self, *, digits: int = 2, unit: str = "") -> str:
        """`14.21 ± 0.35 (13.80 to 14.70) Jobs/s`."""
        mean, deviation = f"{self.mean:.{digits}f}", f"{self.deviation:.{digits}f}"
        tail = f" {unit}" if unit else ""
        return f"{mean} ± {deviation} ({self.least:.{digits}f} to {self.greatest:.{digits}f}){tail}"


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, min(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the least value that at least this share (0 to 1) of the values does not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
