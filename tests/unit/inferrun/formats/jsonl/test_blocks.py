"""Whole blocks of lines are read as they are line by line."""

from typing import Final

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.formats import file_kinds
from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import Chunk, Limits
from inferrun_runner.stores.file.local_files import MemoryFile

MANY: Final = settings(max_examples=300)

VALID: Final = (
    "0",
    "-0",
    "-0.0",
    "1",
    "5.1",
    "1e3",
    "1E-3",
    "-2.5e+10",
    "null",
    f"{1 << 64}",
    "9" * 30,
    "0.1e-400",
)
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
AROUND: Final = st.sampled_from(
    ["", "", "", "", " ", "\t", "  ", "\r", "1", ",", "]", "[", "\f", "\ufeff", "\x00"]
)
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


def form_of(value: object) -> object:
    """The kind of the values of a record and the lengths of its arrays; None without one."""
    if isinstance(value, list):
        forms = {form_of(one) for one in value}
        return (len(value), *forms) if len(forms) == 1 and None not in forms else None
    kinds = {bool: "boolean", int: "number", float: "number", type(None): "number", str: "string"}
    return kinds.get(type(value))


def line_by_line(block: bytes) -> list[bytes] | None:
    """The lines that are not blank, if all are arrays of values of the same kind; the reference."""
    texts = [line.strip() for line in block.split(b"\n") if line.strip()]
    try:
        rows = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        return None
    kinds = {kind_of(form_of(row)) if isinstance(row, list) else None for row in rows}
    return texts if len(kinds) == 1 and None not in kinds else None


def kind_of(form: object) -> object:
    """The kind of the values in a form."""
    return kind_of(form[-1]) if isinstance(form, tuple) else form


@MANY
@given(BLOCKS)
def test_a_file_is_read_as_it_is_line_by_line(content: bytes) -> None:
    content += b"\n"  # otherwise the last line may be a block of its own
    expected = line_by_line(content.removeprefix(b"\xef\xbb\xbf"))
    file = MemoryFile("rows.jsonl", content)
    chunk = Chunk(index=0, unit=0, start=0, end=len(content), first=0, records=1)
    # which is refused
    is_binary = b"\0" in content[: file_kinds.HEAD] or file_kinds.kind_of(content)
    if is_binary or not content.removeprefix(b"\xef\xbb\xbf").strip():
        return
    (block,) = JSONL.read(file, chunk, limits=Limits())
    assert bool(block.errors) == (expected is None)
    assert expected is None or list(json_texts(block.records)) == expected


@MANY
@given(st.lists(lines(), min_size=1, max_size=5))
def test_records_in_objects_are_read_as_they_are_in_lines(rows: list[str]) -> None:
    try:
        content = "".join(
            f'{{"custom_id":{at},"inputs":{row.strip()}}}\n' for at, row in enumerate(rows)
        ).encode()
        values = [orjson.loads(line)["inputs"] for line in content.splitlines()]
    except (orjson.JSONDecodeError, KeyError):
        return
    file = MemoryFile("rows.jsonl", content)
    chunk = Chunk(index=0, unit=0, start=0, end=len(content), first=0, records=1)
    (block,) = JSONL.read(file, chunk, limits=Limits())
    assert block.ids == list(range(len(rows)))
    is_valid = line_by_line(b"".join(orjson.dumps(value) + b"\n" for value in values)) is not None
    assert bool(block.errors) != is_valid
    assert not is_valid or list(json_texts(block.records)) == [
        orjson.dumps(value) for value in values
    ]
