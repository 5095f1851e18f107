"""Records that are JSON objects, of which some members feed the model and some are copied to the
results."""

from typing import Final

import orjson

from inferrun.formats.exact_json import exact_value, unrounded
from inferrun.formats.json_text import text_of
from inferrun.formats.jsonl.line_ranges import BadLine, Lines
from inferrun.formats.named_columns import copied_fault, field_of
from inferrun.formats.partitions import json_values
from inferrun.plugins import ID_COLUMN, Block, ColumnSelection, CustomId, JsonRecords

_INPUTS = "inputs"
"""The member with the numbers if no columns are named that feed the model."""


_WITHOUT_FRACTIONS: Final = frozenset({int, str, bool, type(None)})
"""Types of values of which no number was rounded."""


def objects_of(lines: Lines, columns: ColumnSelection, *, may_miss: bool) -> Block:
    """Return the records of lines. Raises BadLine for one that does not have the columns, unless
    these are then null."""
    records, ids, copied = list[bytes](), list[CustomId](), list[bytes]()
    path = json_values(lines.file)
    # the numbers of a tensor are rounded in any case
    is_kept = columns.copies_any or columns.takes_any
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
