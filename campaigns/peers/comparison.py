"""Compares what a client has written with what it should have written. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Numbers of records."""

    right: int = 0
    wrong: int = 0
    """With the result of another record, or with a result that no record has."""

    missing: int = 0
    repeated: int = 0
    unknown: int = 0
    """Results of records that there are not, or that are refused."""

    @property
    def is_equal(self) -> bool:
        """Whether each record has its result, once."""
        return not (self.wrong or self.missing or self.repeated or self.unknown)

    @property
    def text(self) -> str:
        """What is wrong, such as `3 wrong, 2 missing of 1,000`."""
        names = ("wrong", "missing", "repeated", "unknown")
        counts = [f"{getattr(self, name):,} {name}" for name in names if getattr(self, name)]
        return f"{', '.join(counts)} of {self.right + self.wrong + self.missing:,}"


def compare(
    found: Iterable[tuple[int, object]],
    *,
    records: int,
    expected: Callable[[int], object],
    is_refused: Callable[[int], bool] | None = None,
) -> Comparison:
    """Compare results by the numbers of their records, in any order."""
    seen = bytearray(records)
    right = wrong = repeated = unknown = 0
    refused = is_refused or (lambda _number: False)
    for number, value in found:
        if not 0 <= number < records or refused(number):
            unknown += 1
        elif seen[number]:
            repeated += 1
        else:
            seen[number] = 1
            if value == expected(number):
                right += 1
            else:
                wrong += 1
    due = sum(1 for number in range(records) if not refused(number)) if is_refused else records
    return Comparison(right, wrong, due - right - wrong, repeated, unknown)
