"""Rows of queries in memory."""

import numpy
import pyarrow

from inferrun_runner.stores.sql.rows import canonical


def rows_over(unused: int) -> pyarrow.RecordBatch:
    """Return always the same three rows; bits and values that are not theirs have the value
    `unused`, 0 or 1."""
    valid = pyarrow.py_buffer(bytes([0b101 | 0b11111000 * unused]))
    numbers = pyarrow.py_buffer(numpy.array([1, 9 * unused, 3], "<i4"))
    places = pyarrow.py_buffer(numpy.array([0, 1, 1, 3], "<i4"))
    flags = pyarrow.py_buffer(bytes([0b001 | 0b11111010 * unused]))
    integers = pyarrow.Array.from_buffers(pyarrow.int32(), 3, [valid, numbers])
    return pyarrow.RecordBatch.from_pydict(
        {
            "int": integers,
            "text": pyarrow.Array.from_buffers(
                pyarrow.string(), 3, [valid, places, pyarrow.py_buffer(b"abc")]
            ),
            "bool": pyarrow.Array.from_buffers(pyarrow.bool_(), 3, [valid, flags]),
            "list": pyarrow.Array.from_buffers(
                pyarrow.list_(pyarrow.int32()), 3, [valid, places], children=[integers]
            ),
            "none": pyarrow.nulls(3, pyarrow.int32()),
        }
    )


def test_equal_rows_are_equal_bytes_whatever_their_memory_had_before() -> None:
    clean, used = rows_over(0), rows_over(1)
    assert clean == used
    assert clean.serialize() != used.serialize()
    assert canonical(used) == used
    assert canonical(clean).serialize() == canonical(used).serialize()
