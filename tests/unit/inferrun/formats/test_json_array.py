"""Files that are one JSON array."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.json_array import JSON_ARRAY
from inferrun.plugins import Chunk, ColumnSelection, InputError, Limits
from inferrun_runner.stores.file.local_files import MemoryFile
from tests.unit.runner.batches import chunks_of, decoded

VALUES: st.SearchStrategy[Any] = st.recursive(  # Any: JSON
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), max_size=30),
    st.integers(1, 400),
    st.sampled_from([None, 0, 3]),
    st.sampled_from(["ascii", "utf-8"]),
    st.randoms(),
)
def test_each_record_is_read_once_in_order(
    rows: list[dict[str, Any]], chunk_bytes: int, indent: int | None, encoding: str, random: Random
) -> None:
    content = json.dumps(rows, indent=indent, ensure_ascii=encoding == "ascii").replace(
        "\n", random.choice(["\n", "\r\n"])
    )
    content = f"{random.choice(['', chr(0xFEFF)])}{random.choice(['', ' '])}{content}{random.choice(['', chr(10)])}"
    file = MemoryFile("a.json", content.encode())
    form = JSON_ARRAY.with_columns(ColumnSelection(fed=("a", "b")))
    found: list[object] = []
    for chunk in chunks_of(form, file, chunk_bytes=chunk_bytes):
        blocks = list(form.read(file, chunk, limits=Limits()))
        assert sum(len(block.records) for block in blocks) == chunk.records
        found += [row for block in blocks for row in decoded(block)]
    assert found == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'{"a": 1}\n{"a": 2}\n',
            "no array begins at byte 0; for one JSON value per line, set format: jsonl",
        ),
        (b"[[1], [2]", "a record is not valid JSON, or does not end, at byte 5"),
        (b"[[1], [2], c4nary]", "a record is not valid JSON, or does not end, at byte 10"),
        (b"[[1] [2]]", "a record is not valid JSON, or does not end, at byte 1"),
        (b"[[1]] [[2]]", "something follows the array at byte 5"),
        (
            b"[" + b"9" * 3000 + b"]",
            "a record is not valid JSON, or is longer than 1024 bytes, at byte 1",
        ),
    ],
)
def test_what_is_not_one_array_is_named_before_the_first_request(
    content: bytes, message: str
) -> None:
    limits = Limits(record_bytes=1024)
    with pytest.raises(InputError, match=r"^a\.json: ") as raised:
        list(JSON_ARRAY.plan(MemoryFile("a.json", content), chunk_bytes=100, limits=limits))
    assert message in str(raised.value)
    assert "c4nary" not in str(raised.value)


def test_a_record_of_another_form_costs_one_record() -> None:
    content = (
        b'[{"inputs": [1, 2], "custom_id": "x"},\n {"inputs": "c4nary"},\n {"inputs": [3, 4]}]'
    )
    (block,) = JSON_ARRAY.read(
        MemoryFile("a.json", content), Chunk(0, 0, 0, 1 << 30, 0, 3), limits=Limits()
    )
    assert (decoded(block)[0], decoded(block)[2], list(block.ids)) == (
        [1, 2],
        [3, 4],
        ["x", None, None],
    )
    assert block.errors[1].message.startswith("a.json, the line at byte 38, has a string")
