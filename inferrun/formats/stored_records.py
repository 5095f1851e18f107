"""Stored results as records: what another run predicted feeds the model, and its columns are
copied. Pure.

Without named columns, the record is the prediction. Otherwise the columns are `index`, `custom_id`,
those that were copied to the result, `prediction`, and what is within a prediction:
`prediction.label`, or `prediction.choices.0.text`.

A result that is an error remains one: each record of the one run is a record of the other, with the
same index.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final, cast

import orjson

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.exact_json import exact_value
from inferrun.formats.json_pointer import MISSING, at_pointer
from inferrun.formats.json_text import text_of
from inferrun.formats.named_columns import field_of
from inferrun.formats.record_errors import FAILED_BEFORE, not_sent
from inferrun.formats.record_forms import form_of, other_kinds
from inferrun.plugins import (
    ID_COLUMN,
    Block,
    ColumnSelection,
    Json,
    JsonRecords,
    RecordError,
    StoredResult,
)
from inferrun.plugins.rows import RowFault, width_of

_BLOCK_BYTES: Final = 64 * 1024
_INDEX, _, _PREDICTION, _ = RESULT_MEMBERS
_WITHIN: Final = f"{_PREDICTION}."
_SHOWN: Final = 20


def blocks_of(
    rows: Iterable[StoredResult], columns: ColumnSelection, *, run: str
) -> Iterator[Block]:
    """Yield the results of a run as records, in blocks of about 64 KiB."""
    held, size = list[StoredResult](), 0
    for row in rows:
        held.append(row)
        size += len(row.prediction) + len(row.copied) + (len(row.error.message) if row.error else 1)
        if size >= _BLOCK_BYTES:
            yield block_of_rows(held, columns, run=run)
            held, size = [], 0
    if held:
        yield block_of_rows(held, columns, run=run)


def failed_before(run: str, index: int, error: RecordError) -> RecordError:
    """Return the error of a record that has one in the run whose results are read."""
    return RecordError(
        FAILED_BEFORE, f"record {index} failed in run {run!r}: {error.code}: {error.message}"
    )


def block_of_rows(rows: Sequence[StoredResult], columns: ColumnSelection, *, run: str) -> Block:
    """Return results as records."""
    found: dict[int, bytes] = {}
    errors: dict[int, RecordError] = {}
    copied = [b""] * len(rows)
    for at, row in enumerate(rows):
        if row.error is not None:
            errors[at] = failed_before(run, row.index, row.error)
            copied[at] = _copied_of_failed(row, columns)
            continue
        try:
            found[at], copied[at] = _record(row, columns)
        except ValueError as fault:
            errors[at] = not_sent(f"record {row.index} of run {run!r} {fault}")
    if not columns.fed:
        for at, text in _unfit(found).items():
            errors[at] = not_sent(f"record {rows[at].index} of run {run!r} {text}")
            del found[at]
    example = next(iter(found.values()), b"null")
    records = [found.get(at, example) for at in range(len(rows))]
    ids = [row.custom_id for row in rows]
    return Block(
        JsonRecords(records),
        ids if set(ids) - {None} else (),
        JsonRecords(copied) if any(copied) else None,
        errors=errors,
    )


def _record(row: StoredResult, columns: ColumnSelection) -> tuple[bytes, bytes]:
    """Return the record and what is copied of it. Raises ValueError with the rest of a sentence
    that begins with the record."""
    if not columns.named:
        return row.prediction, row.copied if columns.copies_all else b""
    members = _members(row)
    fed = (
        text_of({name: _value(name, members, columns) for name in columns.fed})
        if columns.fed
        else row.prediction
    )
    if columns.copies_all:
        return fed, row.copied
    return fed, text_of({name: _value(name, members, columns) for name in columns.copied})[1:-1]


def _copied_of_failed(row: StoredResult, columns: ColumnSelection) -> bytes:
    """Return what is copied of a record without a prediction."""
    if not columns.copied:
        return row.copied if columns.copies_all else b""
    members = _members(row)
    return text_of({name: members[name] for name in columns.copied if name in members})[1:-1]


def _members(row: StoredResult) -> dict[str, Json]:
    members: dict[str, Json] = exact_value(b"{%b}" % row.copied)
    members |= {_INDEX: row.index, ID_COLUMN: row.custom_id}
    return members if row.error else {**members, _PREDICTION: exact_value(row.prediction)}


def _value(name: str, members: dict[str, Json], columns: ColumnSelection) -> Json:
    if name in members:
        return members[name]
    if name.startswith(_WITHIN):
        value: Json = at_pointer(members[_PREDICTION], name.removeprefix(_WITHIN).split("."))
        if value is not MISSING:
            return value
    near = get_close_matches(name, members, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(one[:80] for one in list(members)[:_SHOWN])
    raise ValueError(
        f"has no {name!r}, which {field_of(name, columns)} names{hint}; its columns are {shown}"
    )


def _unfit(records: dict[int, bytes]) -> dict[int, str]:
    """Return why records cannot be sent together with most others, by their position."""
    values = {at: cast("Json", orjson.loads(text)) for at, text in records.items()}
    try:
        width_of(list(values.values()))
        return {}
    except RowFault:
        faults, forms = {}, {}
    for at, value in values.items():
        try:
            forms[at] = form_of(value)
        except ValueError as fault:
            faults[at] = (
                f"{fault}; name what feeds the model in tensors.inputs, such as prediction.label"
            )
    return faults | other_kinds(forms)
