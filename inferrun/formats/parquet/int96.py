"""Times of Parquet's type INT96, which Spark, Hive and Impala write: nanoseconds of a day, and the
day, of any year. Pure.

pyarrow reads them as nanoseconds, of which 64 bits are the years from 1677 to 2262 only (9999-12-31
becomes 1816-03-29), or cuts them to microseconds. So both are read: microseconds have the year, and
the difference has what was cut. Spark never has more than microseconds, so its files are read once.
"""

from collections.abc import Set
from typing import Final

import pyarrow
from pyarrow import compute
from pyarrow import types as kinds

from inferrun.formats.exact_casts import parts_in
from inferrun.plugins import InputError

_LIMIT: Final = (1 << 63) // 1000 - 1
"""Microseconds before which nanoseconds have 64 bits."""


def exact_times(
    microseconds: pyarrow.RecordBatch, nanoseconds: pyarrow.RecordBatch, names: Set[str]
) -> pyarrow.RecordBatch:
    """Return rows of which the columns `names` were read in both units.

    A column is in microseconds unless that would cut it. It is text if nanoseconds cannot have all
    of its years, so that each value is judged when it gets the type that it shall have. Raises
    InputError for such times within lists or structs.
    """
    found = microseconds
    for name in names:
        at = microseconds.schema.get_field_index(name)
        coarse, fine = microseconds.column(at), nanoseconds.column(name)
        both = (parts_in(one, kinds.is_timestamp) for one in (coarse, fine))
        rests = [_rest(one, other) for one, other in zip(*both, strict=True)]
        if not any(compute.any(compute.not_equal(rest, 0)).as_py() for rest, _ in rests):
            continue
        if all(compute.all(is_exact, min_count=0).as_py() for _, is_exact in rests):
            column = fine
        elif kinds.is_timestamp(coarse.type):
            digits = pyarrow.array(
                ["" if one == 0 else f"{one:03d}" for one in rests[0][0].to_pylist()]
            )
            column = compute.binary_join_element_wise(coarse.cast(pyarrow.string()), digits, "")
        else:
            text = f"column {name!r} has times with nanoseconds and times before 1677 or after 2262 within {coarse.type}"
            raise InputError(f"{text}, which cannot be read together", is_retryable=False)
        found = found.set_column(at, name, column)
    return found


def has_nanoseconds(column: pyarrow.Array) -> bool:
    """Whether a column of `exact_times` has more than microseconds."""
    return any(
        one.type.unit == "ns" for one in parts_in(column, kinds.is_timestamp)
    ) or kinds.is_string(column.type)


def _rest(coarse: pyarrow.Array, fine: pyarrow.Array) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Return the nanoseconds that microseconds lack, and whether the other column, which drops the
    highest bits, has the time."""
    first, second = (one.cast(pyarrow.int64()).fill_null(0) for one in (coarse, fine))
    # both drop the highest bits, too
    rest = compute.subtract(second, compute.multiply(first, 1000))
    return rest, compute.and_(compute.greater(first, -_LIMIT), compute.less(first, _LIMIT))
