"""Objects whose members are columns: lines of one form are read at once, and say what they say one
by one."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from inferrun.formats.jsonl import objects
from inferrun.formats.jsonl.line_ranges import BadLine, Lines
from inferrun.formats.jsonl.objects import objects_of
from inferrun.plugins import Block, ColumnSelection, JsonRecords
from tests.unit.runner.batches import file_of

COLUMNS = (
    ColumnSelection(fed=("a", "b")),
    ColumnSelection(fed=("b",), copied=("a",)),
    ColumnSelection(fed=("a",), copies_all=True),
    ColumnSelection(takes_any=True),
    ColumnSelection(fed=("b", "a"), takes_any=True, copies_all=True),
)
GENERATED = 100_000
NAMES = ("a", "b", "c", "custom_id")
ODD = (
    "1.0", "1e5", "-0", "18446744073709551615", "18446744073709551616", "0.1000000000000000055",
    "123456789012345678.25", "1e999", "NaN", "null", "true", "[1,2]", "[]", "[{}]", '{"c":1}', "{}",
    '"\\ud800"', '"\\u007d,{"', '"},{"', '"{"', '"}"', '"\\n"', '"\u00fc\u2028"', '"', "{", "}", "[1", "1]",
)  # fmt: skip
"""Values of other forms, and what is no value."""


def file() -> Any:
    return file_of(Path(__file__))


def value(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.5:
        return json.dumps(chance.choice((chance.randint(-99, 99), chance.random(), 0.5)))
    if kind < 0.9:
        return json.dumps(chance.choice(("x", "two words", "\u00e9", "1.5", None)))
    return chance.choice(ODD)


def block(chance: random.Random, lines: int) -> bytes:
    """Lines that are usually alike, and sometimes changed at a random place."""
    names = ["a", "b", *chance.choices(NAMES, k=chance.choice((0, 0, 1, 2)))]
    space, found = chance.choice(("", " ")), list[str]()
    for _ in range(lines):
        if chance.random() < 0.01:
            chance.shuffle(names)
        members = (f'"{name}":{space}{value(chance)}' for name in names)
        found.append(f"{{{f',{space}'.join(members)}}}")
    text = chance.choice(("\n", "\n", "\r\n")).join(found)
    if chance.random() < 0.2:  # also lines that are a value only together
        at, end = sorted(chance.choices(range(len(text)), k=2))
        text = text[:at] + chance.choice(("\n", ",", "}", "{", '"', "", text[at:end])) + text[at:]
    return text.encode("utf-8", "surrogatepass")


def read(lines: Lines, columns: ColumnSelection, *, may_miss: bool) -> Block | tuple[int, str]:
    try:
        return objects_of(lines, columns, may_miss=may_miss)
    except BadLine as error:
        return error.at, error.text


def test_lines_of_one_form_say_at_once_what_they_say_one_by_one() -> None:
    chance, at_once, left = random.Random(1), 0, GENERATED  # noqa: S311  not for security
    while left > 0:
        lines = Lines(file(), 0, block(chance, chance.randint(1, 12)) or b"{}")
        columns, may_miss = chance.choice(COLUMNS), chance.random() < 0.3
        left -= len(lines.texts)
        found = read(lines, columns, may_miss=may_miss)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "_of_one_form", lambda *_: None)
            assert found == read(lines, columns, may_miss=may_miss), lines.block
        at_once += len(lines.texts) if objects._of_one_form(lines, columns) else 0
    assert GENERATED / 5 < at_once < GENERATED / 1.2


def test_usual_lines_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_of_any_form", None)
    lines = Lines(file(), 0, b'{"a": 0.1, "b": "x"}\r\n{"a":12,"b":null}\n')
    found = objects_of(lines, COLUMNS[0], may_miss=False)
    assert found == Block(JsonRecords([b'{"a":0.1,"b":"x"}', b'{"a":12,"b":null}']))
    long = Lines(file(), 0, b'{"a": 123456789012345678.25, "b": "x"}\n')
    found = objects_of(long, COLUMNS[3], may_miss=False)
    assert found == Block(JsonRecords([b'{"a":123456789012345678.25,"b":"x"}']))
