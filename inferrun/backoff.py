"""Pauses between tries that double up to a longest one. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds: the first pause, and the one from which they are not doubled any more."""

    first: float
    longest: float

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest:
            raise ValueError(f"needs 0 < first <= longest, not {self.first}, {self.longest}")

    def after(self, failures: int) -> float:
        """The pause after so many failures in a row."""
        return min(self.first * 2.0 ** min(failures - 1, 30), self.longest)

    def longer(self, pause: float) -> float:
        """The pause after one of `pause` seconds; after none, the first one."""
        return min(2 * pause or self.first, self.longest)
