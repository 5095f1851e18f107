"""What differs between the results of two runs."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from inferrun.resources import parse_run
from inferrun.results import PredictedRows, ResultsError, read_results
from inferrun.results.comparison import ChangedRow, Comparison, compare_results
from tests.unit.inferrun.results.committed_folder import commit_folder

Row = tuple[Any, Any]  # Any: an id and a prediction, or an error

FAILED = {"code": "rejected", "message": "no", "attempts": 1}


def results(folder: Path, rows: Sequence[Row], *, per_part: int = 4) -> PredictedRows:
    """A run's results: an id, or None, and a prediction, or `FAILED`, per record."""
    lines = [_line(index, *row) for index, row in enumerate(rows)]
    parts = [
        (
            "".join(lines[at : at + per_part]).encode(),
            len(lines[at : at + per_part]),
            _failed(rows[at : at + per_part]),
        )
        for at in range(0, len(lines), per_part)
    ]
    output = {"file": {"claimName": "data", "path": "out"}}
    status = commit_folder(folder / "out", parts, output=output)
    run = parse_run(
        {"metadata": {"name": "run"}, "spec": {"configRef": {"name": "c"}}, "status": status}
    )
    return read_results(run, directory=folder)


def _line(index: int, custom_id: Any, prediction: Any) -> str:  # Any: as above
    row: dict[str, Any] = {"index": index}  # Any: JSON
    if custom_id is not None:
        row["custom_id"] = custom_id
    row |= {"error": FAILED} if prediction is FAILED else {"prediction": prediction}
    return json.dumps(row, separators=(",", ":")) + "\n"


def _failed(rows: Iterable[Row]) -> int:
    return sum(prediction is FAILED for _, prediction in rows)


def compared(
    tmp_path: Path,
    before: Sequence[Row],
    after: Sequence[Row],
    **options: Any,  # Any: options
) -> Comparison:
    return compare_results(
        results(tmp_path / "before", before), results(tmp_path / "after", after), **options
    )


def nameless(*predictions: object) -> list[Row]:
    return [(None, one) for one in predictions]


def test_numbers_agree_within_the_tolerance_and_their_distribution_is_described(
    tmp_path: Path,
) -> None:
    found = compared(tmp_path, nameless(1, 2.0, 3, 4), nameless(1.0, 2.05, 3, 6), tolerance=0.1)
    assert found.matched_by == "index"
    assert (found.records.agreed, found.records.changed, found.agreement) == (3, 1, 0.75)
    assert found.rows == (ChangedRow(index=3, before=4, after=6),)
    assert found.numbers_before is not None
    assert (found.numbers_before.mean, found.numbers_before.least, found.numbers_before.most) == (
        2.5,
        1,
        4,
    )
    assert found.numbers_before.deviation == pytest.approx(1.118, abs=1e-3)
    assert found.number_change is not None
    assert found.number_change.largest_difference == 2
    assert found.number_change.mean_difference == pytest.approx(2.05 / 4)
    assert found.labels_before == {"1": 1, "3": 1, "4": 1}


def test_labels_are_counted_with_what_they_became(tmp_path: Path) -> None:
    before = nameless("cat", "cat", "dog", "dog")
    found = compared(tmp_path, before, nameless("cat", "dog", "dog", "cat"))
    assert found.labels_before == {"cat": 2, "dog": 2}
    assert {(one.before, one.after): one.records for one in found.label_changes} == {
        ("cat", "dog"): 1,
        ("dog", "cat"): 1,
    }
    texts = [f"text {at}" for at in range(200)]
    many = compared(tmp_path / "many", nameless(*texts), nameless(*texts))
    assert (many.agreement, many.labels_before, many.label_changes) == (1.0, None, ())


def test_objects_are_compared_member_by_member_whatever_their_order(tmp_path: Path) -> None:
    before = nameless({"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": 0})
    after = nameless({"b": [1, {"c": 2}], "a": 1}, {"a": 2, "b": 0, "n": None})
    found = compared(tmp_path, before, after)
    assert (found.records.agreed, found.members_changed) == (1, {"a": 1, "n": 1})
    assert compared(tmp_path / "member", before, after, member="b").agreement == 1
    assert compared(tmp_path / "deep", before, after, member="b.1.c").agreement == 1


def test_records_are_matched_by_their_ids_in_any_order(tmp_path: Path) -> None:
    before = [("a", 1), ("b", 2), ("c", FAILED), ("d", 4), ("e", FAILED)]
    after = [("b", 2), ("c", 3), ("a", 1), ("x", 9), ("e", FAILED)]
    found = compared(tmp_path, before, after)
    counts = found.records
    assert found.matched_by == "custom_id"
    assert (counts.agreed, counts.changed, counts.failed_before, counts.failed_in_both) == (
        2,
        0,
        1,
        1,
    )
    assert (counts.only_before, counts.only_after) == (1, 1)
    assert found.agreement == 3 / 4
    assert found.rows == (ChangedRow(index=2, custom_id="c", after=3, error_before="rejected: no"),)


@pytest.mark.parametrize("is_before", [True, False])
def test_ids_that_are_not_unique_match_only_in_the_same_order(
    tmp_path: Path, *, is_before: bool
) -> None:
    twice, once = [("a", 1), ("a", 2), ("b", 3)], [("b", 3), ("a", 1), ("c", 2)]
    assert compared(tmp_path / "same", twice, twice).agreement == 1
    with pytest.raises(ResultsError, match="are not unique"):
        compared(tmp_path, *((twice, once) if is_before else (once, twice)))


def test_records_without_ids_are_matched_by_their_places(tmp_path: Path) -> None:
    found = compared(tmp_path, nameless(1, 2, 3), nameless(1, 2))
    assert (found.matched_by, found.records.agreed, found.records.only_before) == ("index", 2, 1)
    nothing = compared(tmp_path / "nothing", [], [])
    assert (nothing.agreement, nothing.rows) == (1.0, ())


def test_numbers_that_python_would_round_differ_if_their_texts_do(tmp_path: Path) -> None:
    first, second = 10**30, 10**30 + 1
    assert compared(tmp_path, nameless(first), nameless(second)).records.changed == 1
    assert compared(tmp_path / "same", nameless(first), nameless(first)).records.agreed == 1


def test_ids_may_be_numbers_in_one_run_and_texts_in_the_other(tmp_path: Path) -> None:
    assert compared(tmp_path, [(1, 5), (2, 6)], [("1", 5), ("2", 6)]).records.agreed == 2
    found = compared(tmp_path / "order", [(1, 5), (2, 6)], [("2", 6), ("1", 5)])
    assert found.records.agreed == 2


def test_true_is_not_one(tmp_path: Path) -> None:
    assert compared(tmp_path, [(None, True)], nameless(1)).records.changed == 1
