"""Reads lines of which some are not valid: each of those costs one record, and the others are read
as usual. Pure.

A block without a bad line never gets here, because to read lines one by one takes much longer.
"""

from collections.abc import Callable
from typing import Final

import orjson

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.jsonl.line_ranges import BadLine, Lines
from inferrun.formats.record_errors import not_sent
from inferrun.formats.record_forms import Form, form_of, other_kinds
from inferrun.formats.record_texts import copied_texts, json_texts
from inferrun.plugins import ID_COLUMN, Block, CustomId, JsonRecords, RecordError


def read_valid(
    lines: Lines, read: Callable[[Lines], Block], *, copied_of: Callable[[Lines], bytes]
) -> Block:
    """Return the records of lines. A bad line has an error, and another record in its place.

    `read` returns the records of lines of which none is bad, and raises BadLine; `copied_of`
    returns what is copied of a bad one.
    """
    found: list[Block | RecordError] = []
    for at in range(len(lines.texts)):
        try:
            found.append(read(lines.only(at)))
        except BadLine as bad:
            found.append(not_sent(f"{lines.place(at)} {bad.text}"))
    errors = {to: one for to, one in enumerate(found) if isinstance(one, RecordError)}
    blocks = {to: one for to, one in enumerate(found) if isinstance(one, Block)}
    forms = {to: _form_of(block) for to, block in blocks.items()}
    for to, text in other_kinds(forms).items():
        errors[to] = not_sent(f"{lines.place(to)} {text}")
        del blocks[to]
    example = next(iter(blocks.values()), _NOTHING)
    records = [_text_of(blocks.get(to, example)) for to in range(len(found))]
    ids = [
        next(iter(blocks[to].ids), None) if to in blocks else id_of(lines.texts[to])
        for to in range(len(found))
    ]
    copied = [
        b"".join(copied_texts(blocks[to])) if to in blocks else copied_of(lines.only(to))
        for to in range(len(found))
    ]
    return Block(
        JsonRecords(records),
        ids if set(ids) - {None} else (),
        JsonRecords(copied) if any(copied) else None,
        example.columns,
        errors,
    )


def id_of(line: bytes) -> CustomId:
    """Return the id of a record that is a JSON object; None if it has none, or is not valid."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    found = value.get(ID_COLUMN) if isinstance(value, dict) else None
    return found if isinstance(found, str) or type(found) is int else None


_NOTHING: Final = Block(JsonRecords([b"null"]))
"""What is in place of bad lines if there are no others."""


def _text_of(block: Block) -> bytes:
    return json_texts(block.records)[0]


_OBJECT: Final = Form("object")


def _form_of(block: Block) -> Form:
    value = orjson.loads(_text_of(block))
    return _OBJECT if isinstance(value, dict) and bytes_in(value) is None else form_of(value)
