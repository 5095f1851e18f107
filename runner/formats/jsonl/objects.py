"""Records that are JSON objects, of which some members feed the model and some are copied to the results."""

from collections.abc import Sequence

import orjson

from inferrun.plugins import ID_COLUMN, Block, ColumnSelection, CustomId, Json, JsonRecords
from runner.formats.json_text import text_of
from runner.formats.jsonl.line_ranges import BadLine, Lines
from runner.formats.named_columns import copied_fault, field_of

_INPUTS = "inputs"
"""The member with the numbers if no columns are named that feed the model."""


def objects_of(lines: Lines, columns: ColumnSelection) -> Block:
    """Return the records of lines. Raises BadLine for one that does not have the columns."""
    rows = [_object(lines.texts[at], at) for at in range(len(lines.texts))]
    for at, row in enumerate(rows):
        for name in columns.named:
            if name not in row:
                raise BadLine(
                    at, f"has no {name!r}, which {field_of(name, columns)} names; a missing value must be null"
                )
    ids = [_id_of(row, at) for at, row in enumerate(rows)]
    records = _fed(rows, columns)
    copied = [_copied(row, at, columns) for at, row in enumerate(rows)]
    return Block(JsonRecords(records), ids if set(ids) - {None} else (), copied if any(copied) else ())


def _object(text: bytes, at: int) -> dict[str, Json]:
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadLine(at, f"is not valid JSON: {error.msg} at character {error.pos + 1}") from error
    if not isinstance(value, dict):
        raise BadLine(at, "must be a JSON object, because the config names columns")
    return value


def _id_of(row: dict[str, Json], at: int) -> CustomId:
    given = row.get(ID_COLUMN)
    if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise BadLine(at, f'"{ID_COLUMN}" must be a string or an integer')
    return given


def _fed(rows: Sequence[dict[str, Json]], columns: ColumnSelection) -> list[bytes]:
    if columns.fed:
        return [_text({name: row[name] for name in columns.fed}, at) for at, row in enumerate(rows)]
    for at, row in enumerate(rows):
        if _INPUTS not in row:
            raise BadLine(at, f'has no "{_INPUTS}"; name the columns that feed the model in tensors.inputs')
    return [_text(row[_INPUTS], at) for at, row in enumerate(rows)]


def _text(value: Json, at: int) -> bytes:
    try:
        return text_of(value)
    except ValueError as error:
        raise BadLine(at, f"cannot be used: {error}") from error


def _copied(row: dict[str, Json], at: int, columns: ColumnSelection) -> bytes:
    names = columns.copied_of(list(row))
    if columns.copies_all and (fault := copied_fault(names)):
        raise BadLine(at, f"cannot be copied with joinSource: {fault}, or list the columns in passThroughColumns")
    return _text({name: row[name] for name in names}, at)[1:-1]
