"""Records that are JSON objects, of which some members feed the model and some are copied to the
results."""

from collections.abc import Sequence
from typing import Final, cast

import orjson

from inferrun.formats.exact_json import exact_value, unrounded
from inferrun.formats.json_text import text_of, texts_of
from inferrun.formats.jsonl.line_ranges import BadLine, Lines
from inferrun.formats.named_columns import copied_fault, field_of
from inferrun.formats.partitions import json_values
from inferrun.plugins import ID_COLUMN, Block, ColumnSelection, CustomId, Json, JsonRecords

_INPUTS = "inputs"
"""The member with the numbers if no columns are named that feed the model."""


_WITHOUT_FRACTIONS: Final = frozenset({int, str, bool, type(None)})
"""Types of values of which no number was rounded."""

_IDS: Final = {str, int, type(None)}
"""Types of ids."""


def objects_of(lines: Lines, columns: ColumnSelection, *, may_miss: bool) -> Block:
    """Return the records of lines. Raises BadLine for one that does not have the columns, unless
    these are then null."""
    return _of_one_form(lines, columns) or _of_any_form(lines, columns, may_miss=may_miss)


def _of_one_form(lines: Lines, columns: ColumnSelection) -> Block | None:
    """Return what `_of_any_form` does for valid objects with the same members in the same order,
    and without others in them; None for other lines.

    Most lines are of this form. All of them are decoded and encoded at once.
    """
    if (
        not columns.has_names
        or (rows := _flat_objects(lines.texts, is_kept=_keeps(columns))) is None
    ):
        return None
    if path := json_values(lines.file):
        rows = [row | path for row in rows]
    names = list(rows[0])
    if any(list(row) != names for row in rows) or not set(columns.named) <= set(names):
        return None
    kept = columns.copied_of(names)
    ids = cast("list[CustomId]", [row[ID_COLUMN] for row in rows] if ID_COLUMN in names else [])
    if not set(map(type, ids)) <= _IDS or (columns.copies_all and copied_fault(kept)):
        return None
    try:
        records = _with_members(rows, columns.fed_of(names))
        copied = [text[1:-1] for text in _with_members(rows, kept)] if kept else []
    except ValueError:
        return None
    return Block(
        JsonRecords(records),
        ids if set(ids) - {None} else (),
        JsonRecords(copied) if copied else None,
    )


def _keeps(columns: ColumnSelection) -> bool:
    """Whether numbers are kept as they are written. Those of a tensor are rounded in any case."""
    return columns.copies_any or columns.takes_any


def _flat_objects(texts: Sequence[bytes], *, is_kept: bool) -> list[dict[str, Json]] | None:
    """Return lines that are objects without others in them; with `is_kept` without rounding.

    A brace per line at its beginning and its end is all that they have. So if as many values are
    decoded, each line is one: a text that began in one line and ended in another would contain a
    brace.
    """
    count, content = len(texts), b"\n".join(texts)
    if not (
        content.startswith(b"{")
        and content.endswith(b"}")
        and content.count(b"}\n{") == count - 1
        and content.count(b"{") == content.count(b"}") == count
    ):
        return None
    text = b"[%b]" % content.replace(b"\n", b",")
    try:
        found: list[dict[str, Json]] = orjson.loads(text)
        found = unrounded(found, text) if is_kept else found
    except orjson.JSONDecodeError:
        return None
    return found if len(found) == count else None


def _with_members(rows: Sequence[dict[str, Json]], names: Sequence[str]) -> list[bytes]:
    """Return the texts of objects with some of the members of rows, all of which have the same."""
    if list(rows[0]) == list(names):
        return texts_of(rows)
    return texts_of([{name: row[name] for name in names} for row in rows])


def _of_any_form(lines: Lines, columns: ColumnSelection, *, may_miss: bool) -> Block:
    """Return the records of lines one by one. Raises as `objects_of`."""
    records, ids, copied = list[bytes](), list[CustomId](), list[bytes]()
    path = json_values(lines.file)
    is_kept = _keeps(columns)
    for at, line in enumerate(lines.texts):
        try:
            row = orjson.loads(line)
            if (
                is_kept
                and isinstance(row, dict)
                and not _WITHOUT_FRACTIONS.issuperset(map(type, row.values()))
            ):
                row = unrounded(row, line)
        except orjson.JSONDecodeError as error:
            raise BadLine(
                at, f"is not valid JSON: {error.msg} at character {error.pos + 1}"
            ) from error
        if not isinstance(row, dict):
            raise BadLine(at, "must be a JSON object, because the config names columns")
        row |= path
        for name in columns.named:
            if name not in row and may_miss:
                row[name] = None
            elif name not in row:
                field = field_of(name, columns)
                text = f"has no {name!r}, which {field} names; a missing value must be null"
                raise BadLine(at, f'{text}, or set missingColumns: "Null"')
        given = row.get(ID_COLUMN)
        if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
            raise BadLine(at, f'"{ID_COLUMN}" must be a string or an integer')
        if not columns.has_names and _INPUTS not in row:
            raise BadLine(
                at, f'has no "{_INPUTS}"; name the columns that feed the model in tensors.inputs'
            )
        names = columns.copied_of(list(row))
        if columns.copies_all and (fault := copied_fault(names)):
            text = f"cannot be copied with joinSource: {fault}, or list the columns in passThroughColumns"
            raise BadLine(at, text)
        try:
            fed = (
                {name: row[name] for name in columns.fed_of(list(row))}
                if columns.has_names
                else row[_INPUTS]
            )
            records.append(text_of(fed))
            copied.append(text_of({name: row[name] for name in names})[1:-1])
        except ValueError as error:
            raise BadLine(at, f"cannot be used: {error}") from error
        ids.append(given)
    return Block(
        JsonRecords(records),
        ids if set(ids) - {None} else (),
        JsonRecords(copied) if any(copied) else None,
    )


def copied_of(line: Lines, columns: ColumnSelection) -> bytes:
    """Return what is copied of a line that is not a valid record, as far as it has that."""
    try:
        row = exact_value(line.texts[0])
        if not isinstance(row, dict):
            return b""
        row |= json_values(line.file)
        names = [
            name
            for name in columns.copied_of(list(row))
            if name in row and not copied_fault([name])
        ]
        return text_of({name: row[name] for name in names})[1:-1]
    except ValueError:
        return b""
