"""Times of the type INT96: every year from 1 to 9999, and nanoseconds where a file has them."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from inferrun.formats.exact_casts import cast_exactly
from inferrun.formats.parquet.format import PARQUET, Parquet
from inferrun.formats.parquet.int96 import exact_times
from inferrun.plugins import ColumnSelection, InputError
from tests.unit.runner.batches import file_of

us, ns = pyarrow.timestamp("us"), pyarrow.timestamp("ns")
_2026, _LATE = 1767323045123456, 253402300799999999
"""2026-01-02 03:04:05.123456 and 9999-12-31 23:59:59.999999 in microseconds."""


def read_as(kind: pyarrow.DataType, moments: list[int | None]) -> pyarrow.Array:
    """Return moments, given in nanoseconds, as pyarrow reads them from INT96: it cuts, or drops the
    highest bits."""
    counts = [
        one if one is None else one // 1000 if kind == us else (one + 2**63) % 2**64 - 2**63
        for one in moments
    ]
    return pyarrow.array(counts, pyarrow.int64()).cast(kind)


def exact(moments: list[int | None]) -> pyarrow.Array:
    both = [pyarrow.record_batch({"t": read_as(kind, moments)}) for kind in (us, ns)]
    return exact_times(both[0], both[1], {"t"}).column("t")


def test_times_are_microseconds_if_they_have_no_more() -> None:
    assert exact([_2026 * 1000, _LATE * 1000, None, -62135596800 * 10**9]).type == us


def test_times_with_more_are_nanoseconds() -> None:
    column = exact([_2026 * 1000 + 789, -1, None])
    assert (column.type, column.cast(pyarrow.int64()).to_pylist()) == (
        ns,
        [_2026 * 1000 + 789, -1, None],
    )


@pytest.mark.parametrize(("kind", "bad"), [(ns, [1, 3]), (us, [0, 1])])
def test_of_both_in_one_column_each_is_exact_or_an_error_of_its_record(
    kind: pyarrow.DataType, bad: list[int]
) -> None:
    moments = [_2026 * 1000 + 789, _LATE * 1000 + 999, None, _LATE * 1000, 5000]
    found, faults = cast_exactly(exact(moments), kind)
    assert faults == bad
    unit = 1 if kind == ns else 1000
    expected = [None if at in bad or one is None else one // unit for at, one in enumerate(moments)]
    assert found.cast(pyarrow.int64()).to_pylist() == expected


def test_times_within_lists_are_read_in_one_unit() -> None:
    def lists(moments: list[int | None]) -> pyarrow.DataType:
        first, second = (
            pyarrow.record_batch(
                {"t": pyarrow.ListArray.from_arrays([0, 1, 2], read_as(kind, moments))}
            )
            for kind in (us, ns)
        )
        return exact_times(first, second, {"t"}).column("t").type

    assert lists([_LATE * 1000, 0]) == pyarrow.list_(us)
    assert lists([_2026, 0]) == pyarrow.list_(ns)
    with pytest.raises(InputError, match="cannot be read together"):
        lists([_LATE * 1000, 1])


@pytest.mark.parametrize(("nanoseconds", "kind"), [(0, us), (1, ns)])
def test_a_file_has_the_unit_that_its_times_need(
    tmp_path: Path, nanoseconds: int, kind: pyarrow.DataType
) -> None:
    path = tmp_path / "times.parquet"
    table = pyarrow.table({"n": [1, 2], "t": pyarrow.array([nanoseconds, 10**18], ns)})
    parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert PARQUET.schema(file_of(path)).field("t").type == kind
    unused = Parquet(ColumnSelection(fed=("n",)))
    assert unused.schema(file_of(path)).field("t").type == us  # its values are not read


def test_a_time_of_the_year_9999_is_one() -> None:
    assert str(exact([_LATE * 1000])[0]) == "9999-12-31 23:59:59.999999"
