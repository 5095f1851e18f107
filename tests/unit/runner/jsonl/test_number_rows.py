"""Whole blocks of lines are read as they are line by line."""

import json
from typing import Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.plugins import Chunk, Limits
from runner.json_text import json_texts
from runner.jsonl.format import JSONL
from runner.jsonl.number_rows import number_rows
from runner.memory_file import MemoryFile

MANY: Final = settings(max_examples=300, deadline=None)

VALID: Final = ("0", "-0", "-0.0", "1", "5.1", "1e3", "1E-3", "-2.5e+10", "null", f"{1 << 64}", "9" * 30, "0.1e-400")
INVALID: Final = (
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "+1",
    "01",
    ".5",
    "1.",
    "1e",
    "--1",
    "0x1",
    "nul",
    "true",
)
INVALID_TOO: Final = (
    "",
    "1 2",
    "1_0",
    "e",
    "E",
    "-",
    "nulll",
    "null1",
    '"1"',
    '"\\u005b,]"',
    "[1]",
    "[]",
    "{}",
    '{"a":1,"a":2}',
    "\\u0031",
)
AROUND: Final = st.sampled_from(["", "", "", "", " ", "\t", "  ", "\r", "1", ",", "]", "[", "\f", "\ufeff", "\x00"])
BREAKS: Final = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n \n", "\r\r\n", ""])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that is an array of numbers, or nearly."""
    values = draw(st.lists(st.sampled_from(VALID), min_size=2, max_size=2))
    if draw(st.integers(0, 9)) == 0:
        values = draw(st.lists(st.sampled_from((*VALID, *INVALID, *INVALID_TOO)), max_size=3))
    text = draw(st.sampled_from([",", ",", ", ", " ,"])).join(values)
    if draw(st.integers(0, 9)) == 0:
        return draw(AROUND) + "[" + draw(AROUND) + text + draw(AROUND) + "]" + draw(AROUND)
    return f"[{text}]"


BLOCKS: Final = st.lists(st.tuples(lines(), BREAKS), min_size=1, max_size=6).map(
    lambda found: "".join(line + end for line, end in found).encode()
)


def line_by_line(block: bytes) -> list[bytes] | None:
    """The lines that are not blank, if all are arrays of the same number of numbers and nulls; the reference."""
    texts = [line.strip() for line in block.split(b"\n") if line.strip()]
    try:
        rows = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        return None
    if not all(
        isinstance(row, list) and row and {type(one) for one in row} <= {int, float, type(None)} for row in rows
    ):
        return None
    return texts if len(set(map(len, rows))) == 1 else None


@MANY
@given(BLOCKS)
def test_a_block_is_recognised_only_if_each_of_its_lines_is(block: bytes) -> None:
    found = number_rows(block)
    assert found is None or list(found) == line_by_line(block)


@MANY
@given(BLOCKS)
def test_a_file_is_read_as_it_is_line_by_line(content: bytes) -> None:
    content += b"\n"  # otherwise the last line may be a block of its own
    expected = line_by_line(content.removeprefix(b"\xef\xbb\xbf"))
    file = MemoryFile("rows.jsonl", content)
    chunk = Chunk(index=0, unit=0, start=0, end=len(content), first=0, records=1)
    if not content.removeprefix(b"\xef\xbb\xbf").strip():
        return
    (block,) = JSONL.read(file, chunk, limits=Limits())
    assert bool(block.errors) == (expected is None)
    assert expected is None or list(json_texts(block.records)) == expected


@MANY
@given(st.lists(lines(), min_size=1, max_size=5))
def test_records_in_objects_are_read_as_they_are_in_lines(rows: list[str]) -> None:
    try:
        content = "".join(f'{{"custom_id":{at},"inputs":{row.strip()}}}\n' for at, row in enumerate(rows)).encode()
        values = [orjson.loads(line)["inputs"] for line in content.splitlines()]
    except (orjson.JSONDecodeError, KeyError):
        return
    file = MemoryFile("rows.jsonl", content)
    chunk = Chunk(index=0, unit=0, start=0, end=len(content), first=0, records=1)
    (block,) = JSONL.read(file, chunk, limits=Limits())
    assert block.ids == list(range(len(rows)))
    is_valid = line_by_line(b"".join(orjson.dumps(value) + b"\n" for value in values)) is not None
    assert bool(block.errors) != is_valid
    assert not is_valid or list(json_texts(block.records)) == [orjson.dumps(value) for value in values]


@given(st.integers(1, 5), st.integers(1, 30), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_usual_blocks_are_recognised(width: int, count: int, end: str, is_ended: bool, data: st.DataObject) -> None:  # noqa: FBT001
    number = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(1 << 63), (1 << 64) - 1) | st.none()
    rows = data.draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=count, max_size=count))
    separators = data.draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    texts = [json.dumps(row, separators=separators) for row in rows]
    block = end.join(texts) + (end if is_ended else "")
    assert list(number_rows(block.encode()) or ()) == [text.encode() for text in texts]


@pytest.mark.parametrize(
    "block",
    [b"[1,2]\n[3]", b"[1\n2]", b"[1]2\n[3]", b"[1]\n2[3]", b"[1,]\n[,3]", b"[1,2,]", b"[]", b"[]\n[]", b"[[1],2]", b"[1\n,2]"],
)  # fmt: skip
def test_numbers_do_not_move_between_lines(block: bytes) -> None:
    assert number_rows(block) is None
