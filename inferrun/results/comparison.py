"""Compares the results of two runs: how many agree, which have changed, and how their values are
distributed.

Records are the same if their ids are, or where there are none, their indexes. All results are read
once, in order, and none is kept; only if the ids come in another order, those of the second run are
held on disk.
"""

import math
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inferrun.camel_case import CamelCase
from inferrun.plugins import NO_USAGE, CustomId, StoredResult, TokenUsage
from inferrun.results.access import load
from inferrun.results.errors import ResultsError
from inferrun.results.table import PredictedRows

MOST_LABELS: Final = 100
"""Different labels that are counted; more are no labels."""

MOST_MEMBERS: Final = 50
"""Members of predictions that are compared one by one."""

_LABEL_LENGTH: Final = 64

Pair = tuple[StoredResult | None, StoredResult | None]


class ChangedRow(CamelCase):
    """A record with different results. A failed one has no prediction."""

    index: int
    """In the first run."""

    custom_id: CustomId = None
    before: Any = None  # Any: JSON
    after: Any = None  # Any: as above
    error_before: str = ""
    error_after: str = ""


class Counts(CamelCase):
    """Numbers of records; `agreed`, `changed` and the failed ones are in both runs."""

    agreed: int = 0
    changed: int = 0
    failed_before: int = 0
    failed_after: int = 0
    failed_in_both: int = 0
    only_before: int = 0
    only_after: int = 0


class NumberSummary(CamelCase):
    """The distribution of predictions that are numbers."""

    records: int
    mean: float
    deviation: float
    least: float
    most: float


class NumberChange(CamelCase):
    """How predictions that are numbers have changed: the differences of the records in both."""

    mean_difference: float
    mean_absolute_difference: float
    largest_difference: float


class LabelChange(CamelCase):
    """How many records had the one label and have the other one."""

    before: str
    after: str
    records: int


class Comparison(CamelCase):
    """What differs between two runs. `agreement` is the share of the records in both that have the
    same result, 1 if there are none."""

    before: str
    after: str
    matched_by: str
    """custom_id or index."""

    records: Counts
    agreement: float
    rows: tuple[ChangedRow, ...] = ()
    """The first records that have changed."""

    numbers_before: NumberSummary | None = None
    numbers_after: NumberSummary | None = None
    number_change: NumberChange | None = None
    labels_before: dict[str, int] | None = None
    labels_after: dict[str, int] | None = None
    label_changes: tuple[LabelChange, ...] = ()
    """The most frequent ones first."""

    members_changed: dict[str, int] | None = None
    """Of predictions that are objects: in how many records each member differs."""

    duration_before: str = ""
    """Of the run, such as 1m5s; empty if whoever compares them does not know it."""

    duration_after: str = ""
    usage_before: TokenUsage = NO_USAGE
    usage_after: TokenUsage = NO_USAGE


def compare_results(
    before: PredictedRows,
    after: PredictedRows,
    *,
    names: tuple[str, str] = ("before", "after"),
    tolerance: float = 0.0,
    member: str = "",
    rows: int = 10,
    folder: Path | None = None,
) -> Comparison:
    """Compare the results of two runs, of which `names` are the names.

    Numbers agree if they differ by at most `tolerance`. `member` is a path in the predictions, such
    as choices.0.message.content: only what is there is compared. `rows` is the number of changed
    records to list, and `folder` where ids may be held on disk. Raises ResultsError.
    """
    pick = _picker(member)

    def attempt(pairs: Iterator[Pair]) -> _Tally:
        tally = _Tally(tolerance=tolerance, pick=pick, most_rows=rows)
        for one, other in pairs:
            tally.add(one, other)
        return tally

    try:
        matched_by, tally = _matched_in_order(before, after, attempt)
    except _OtherOrder:
        with tempfile.TemporaryDirectory(dir=folder) as made:
            tally = attempt(_matched_by_id(before, after, Path(made)))
        matched_by = "custom_id"
    counts = tally.counts
    both = (
        counts.agreed
        + counts.changed
        + counts.failed_before
        + counts.failed_after
        + counts.failed_in_both
    )
    same = counts.agreed + counts.failed_in_both
    return Comparison(
        before=names[0],
        after=names[1],
        matched_by=matched_by,
        records=counts,
        agreement=same / both if both else 1.0,
        rows=tuple(tally.rows),
        usage_before=before.manifest.usage or NO_USAGE,
        usage_after=after.manifest.usage or NO_USAGE,
        **tally.values(),
    )


class _OtherOrder(Exception):
    """The ids of the runs do not come in the same order."""


def _matched_in_order(
    before: PredictedRows, after: PredictedRows, attempt: "Callable[[Iterator[Pair]], _Tally]"
) -> "tuple[str, _Tally]":
    """What the records match by, and the comparison of those that come in the same order. Raises
    _OtherOrder."""
    matched_by = "index"

    def pairs() -> Iterator[Pair]:
        nonlocal matched_by
        left, right = before.stored(), after.stored()
        one, other = next(left, None), next(right, None)
        while one is not None or other is not None:
            if one is None or other is None:
                if matched_by == "custom_id":
                    raise _OtherOrder
            elif matched_by == "custom_id" or None not in (one.custom_id, other.custom_id):
                matched_by = "custom_id"
                if str(one.custom_id) != str(other.custom_id):
                    raise _OtherOrder
            elif one.index < other.index:
                yield one, None
                one = next(left, None)
                continue
            elif other.index < one.index:
                yield None, other
                other = next(right, None)
                continue
            yield one, other
            one, other = next(left, None), next(right, None)

    tally = attempt(pairs())
    return matched_by, tally


def _matched_by_id(before: PredictedRows, after: PredictedRows, folder: Path) -> Iterator[Pair]:
    """Pairs of results with the same id; those of the second run are held in a database."""
    with closing(sqlite3.connect(folder / "results")) as database:
        database.executescript(
            "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -16384;"
            "create table held (id text primary key, place integer, prediction blob, code text, message text)"
            " without rowid;"
        )
        database.executemany(
            "insert or ignore into held values (?, ?, ?, ?, ?)",
            (
                (
                    _key(one),
                    one.index,
                    one.prediction,
                    one.error.code if one.error else None,
                    one.error.message if one.error else None,
                )
                for one in after.stored()
            ),
        )
        (held,) = database.execute("select count(*) from held").fetchone()
        if held < len(after):
            raise _not_unique(after)
        find = "select place, prediction, code, message from held where id = ?"
        are_found = bytearray(len(after))
        for one in before.stored():
            found = database.execute(find, [_key(one)]).fetchone()
            if found:
                if are_found[found[0]]:
                    raise _not_unique(before)
                are_found[found[0]] = True
            yield one, _held(one.custom_id, found) if found else None
        if not all(are_found):
            for row in database.execute("select place, prediction, code, message from held"):
                if not are_found[row[0]]:
                    yield None, _held(None, row)


def _not_unique(found: PredictedRows) -> ResultsError:
    return ResultsError(
        f"the ids of {found!r} are not unique, and they come in another order than those of the other run, so it is not "
        "known which results belong together; make them unique"
    )


def _key(one: StoredResult) -> str:
    return f"id {one.custom_id}" if one.custom_id is not None else f"index {one.index}"


def _held(custom_id: CustomId, row: tuple[int, bytes, str | None, str | None]) -> StoredResult:
    place, prediction, code, message = row
    error = load("inferrun.plugins").RecordError(code, message or "") if code is not None else None
    return StoredResult(place, custom_id, prediction=prediction, error=error)


Pick = Callable[[Any], Any]  # Any: JSON


def _picker(member: str) -> Pick | None:
    """What finds a member in a prediction; null where it is not."""
    if not member:
        return None
    steps = member.split(".")

    def pick(value: Any) -> Any:  # Any: JSON
        for step in steps:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value

    return pick


@dataclass
class _Numbers:
    """Mean and variance in one pass (Welford)."""

    records: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, value: float) -> None:
        self.records += 1
        off = value - self.mean
        self.mean += off / self.records
        self.squares += off * (value - self.mean)
        self.least, self.most = min(self.least, value), max(self.most, value)

    def summary(self) -> NumberSummary | None:
        if not self.records:
            return None
        deviation = math.sqrt(self.squares / self.records)
        return NumberSummary(
            records=self.records,
            mean=self.mean,
            deviation=deviation,
            least=self.least,
            most=self.most,
        )


@dataclass
class _Values:
    """What the predictions of one run are."""

    numbers: _Numbers = field(default_factory=_Numbers)
    labels: Counter[str] | None = field(default_factory=Counter)
    """None: there are too many different ones."""

    def add(self, value: Any) -> None:  # Any: JSON
        if _is_number(value):
            self.numbers.add(float(value))
        if self.labels is None or not _is_label(value):
            return
        label = _label(value)
        if len(label) > _LABEL_LENGTH or (
            label not in self.labels and len(self.labels) == MOST_LABELS
        ):
            self.labels = None
        else:
            self.labels[label] += 1


class _Tally:
    """Counts pairs of results."""

    def __init__(self, *, tolerance: float, pick: Pick | None, most_rows: int) -> None:
        self.rows: list[ChangedRow] = []
        self._counts = Counter[str]()
        self._before, self._after = _Values(), _Values()
        self._differences = _Numbers()
        self._absolute = _Numbers()
        self._label_changes = Counter[tuple[str, str]]()
        self._members = Counter[str]()
        self._tolerance = tolerance
        self._pick = pick
        self._most_rows = most_rows
        self._exact: Callable[[bytes], Any] = load("inferrun.formats.exact_json").exact_value
        self._loads: Callable[[bytes], Any] = load("orjson").loads  # Any: JSON

    @property
    def counts(self) -> Counts:
        return Counts(**self._counts)

    def add(self, one: StoredResult | None, other: StoredResult | None) -> None:
        if one is None or other is None:
            self._counts["only_after" if one is None else "only_before"] += 1
            return
        if one.error or other.error:
            both = "failed_in_both" if one.error and other.error else ""
            self._counts[both or ("failed_before" if one.error else "failed_after")] += 1
            for found, values in ((one, self._before), (other, self._after)):
                if not found.error:
                    values.add(self._value(found.prediction))
            if not both:
                self._list(one, other)
            return
        is_same_text = one.prediction == other.prediction
        before = self._value(one.prediction, is_exact=not is_same_text)
        after = before if is_same_text else self._value(other.prediction, is_exact=True)
        self._before.add(before)
        self._after.add(after)
        if _is_number(before) and _is_number(after):
            self._differences.add(float(after) - float(before))
            self._absolute.add(abs(float(after) - float(before)))
        if is_same_text or _agree(before, after, self._tolerance):
            self._counts["agreed"] += 1
            return
        self._counts["changed"] += 1
        self._note_change(before, after)
        self._list(one, other)

    def values(self) -> dict[str, Any]:  # Any: fields of a comparison
        """The fields of the comparison that say how values are distributed."""
        found: dict[str, Any] = {  # Any: as above
            "numbers_before": self._before.numbers.summary(),
            "numbers_after": self._after.numbers.summary(),
            "members_changed": dict(self._members.most_common()) or None,
        }
        if self._differences.records:
            found["number_change"] = NumberChange(
                mean_difference=self._differences.mean,
                mean_absolute_difference=self._absolute.mean,
                largest_difference=self._absolute.most,
            )
        before, after = self._before.labels, self._after.labels
        if before and after:
            found["labels_before"] = dict(before.most_common())
            found["labels_after"] = dict(after.most_common())
            found["label_changes"] = tuple(
                LabelChange(before=one, after=other, records=number)
                for (one, other), number in self._label_changes.most_common(MOST_LABELS)
            )
        return found

    # Any: JSON
    def _value(self, prediction: bytes, *, is_exact: bool = False) -> Any:
        """The value; exact, numbers that Python would round are kept as texts."""
        value = self._exact(prediction) if is_exact else self._loads(prediction)
        return self._pick(value) if self._pick else value

    def _note_change(self, before: Any, after: Any) -> None:  # Any: JSON
        if isinstance(before, dict) and isinstance(after, dict):
            for name in before.keys() | after.keys():
                if name not in self._members and len(self._members) >= MOST_MEMBERS:
                    continue
                is_in_both = name in before and name in after
                if not is_in_both or not _agree(before[name], after[name], self._tolerance):
                    self._members[name] += 1
        elif self._before.labels is not None and _is_label(before) and _is_label(after):
            self._label_changes[_label(before), _label(after)] += 1

    def _list(self, one: StoredResult, other: StoredResult) -> None:
        if len(self.rows) == self._most_rows:
            return
        row = ChangedRow(
            index=one.index,
            custom_id=one.custom_id,
            before=None if one.error else self._value(one.prediction),
            after=None if other.error else self._value(other.prediction),
            error_before=f"{one.error.code}: {one.error.message}" if one.error else "",
            error_after=f"{other.error.code}: {other.error.message}" if other.error else "",
        )
        self.rows.append(row)


def _is_number(value: Any) -> bool:  # Any: JSON
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_label(value: Any) -> bool:  # Any: JSON
    return isinstance(value, (str, bool, int))


def _label(value: str | float) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _agree(one: Any, other: Any, tolerance: float) -> bool:  # Any: JSON
    if _is_number(one) and _is_number(other):
        return bool(one == other or abs(one - other) <= tolerance)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _agree(left, right, tolerance) for left, right in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _agree(value, other[name], tolerance) for name, value in one.items()
        )
    return type(one) is type(other) and bool(one == other)
