"""Results in rows of a PostgreSQL table: which columns have them, their digest, and how they are
read again. Pure.

Rows are read as lines of COPY in text format: run, index, custom_id, prediction, error, and copied
columns, the last three as JSON.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final

import orjson

from inferrun.formats.json_text import error_of
from inferrun.plugins import ID_COLUMN, ReadableResults, StoredResult

SETTINGS: Final = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
"""The settings of a transaction whose rows are digested: with others the texts of values would
differ."""

_NULL: Final = b"\\N"
_RAW: Final = {
    b"\\b": b"\b",
    b"\\f": b"\f",
    b"\\n": b"\n",
    b"\\r": b"\r",
    b"\\t": b"\t",
    b"\\v": b"\v",
}
_ESCAPED: Final = re.compile(rb"\\.")


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def table_names(table: str) -> dict[str, str]:
    """Return the names of a table with results and of the two beside it, as SQL: `table`, `runs`
    and `chunks`."""
    *schema, name = table.split(".")
    names = {"table": name, "runs": "inferrun_runs", "chunks": "inferrun_chunks"}
    return {key: ".".join(map(quoted, (*schema, one))) for key, one in names.items()}


class TableRows:
    """The columns of a table with the results of a run; `roles` are their names with what they are,
    empty if it is not known."""

    def __init__(self, roles: Mapping[str, str]) -> None:
        self.copied = [name for name, role in roles.items() if role == "copied"]
        self.predictions = [name for name, role in roles.items() if role == "prediction"] or [
            "prediction"
        ]
        ids = [ID_COLUMN] if not roles or "key" in roles.values() else []
        self.names = [*ids, *self.copied, *self.predictions, "error"]
        """Those with the results, besides the index."""

    @property
    def prediction(self) -> str:
        """The prediction as the text of a JSON value, as SQL."""
        return f"coalesce(({self._prediction(_json_of('prediction'))})::text, 'null')"

    @property
    def results(self) -> str:
        """The results, each with the type of its column, as SQL; several columns of a prediction
        are one of JSON."""
        names = [
            *map(quoted, self.names[: -len(self.predictions) - 1]),
            f"{self._prediction('prediction')} as prediction",
        ]
        return ", ".join([*names, "error"])

    def _prediction(self, one: str) -> str:
        return one if self.predictions == ["prediction"] else _members(self.predictions)

    def lines(self, run: str) -> str:
        """Return what is selected for `ROWS_OF_COPY`, as SQL; `run` is SQL, too."""
        columns = [
            run,
            "index",
            f"{ID_COLUMN}::text",
            f"case when error is null then {self.prediction} end",
            "error::text",
        ]
        if self.copied:
            columns.append(f"{_members(self.copied)}::text")
        return ", ".join(columns)


def digest_of(rows: str) -> str:
    """Return the query for the SHA-256 and the size of rows with an index, as the server computes
    them with `SETTINGS`.

    A row is `q.*`: `q` alone would be the column of that name, if there is one.
    """
    lines = "coalesce(string_agg(q.*::text, E'\\n' order by q.index), '')"
    return f"select encode(sha256(convert_to({lines}, 'UTF8')), 'hex'), octet_length({lines}) from ({rows}) q"  # noqa: S608  names


def _members(names: Sequence[str]) -> str:
    """Return columns as an object, of which one may be named `o`. A function would have at most a
    hundred arguments."""
    columns = ", ".join(f"{_json_of(name)} as {quoted(name)}" for name in names)
    return f"(select to_json(o.*) from (select {columns}) o)"  # noqa: S608  names


def _json_of(name: str) -> str:
    """Return a column as JSON in the form that JSON lines have, as SQL: the server's own of bytes
    is hexadecimal.

    A decimal number is a text, so that no reader rounds it. The type is known when the statement is
    executed.
    """
    value = quoted(name)
    encoded = "json_build_object('b64', translate(encode({}, 'base64'), E'\\n', ''))"
    items = f"json_agg(case when i is not null then {encoded.format('i')} end)"
    return (
        f"case when {value} is null then null else case pg_typeof({value})::text "  # noqa: S608  names
        f"when 'bytea' then {encoded.format(f'{value}::text::bytea')} "
        f"when 'bytea[]' then (select coalesce({items}, '[]') from unnest({value}::text::bytea[]) i) "
        f"when 'numeric' then case when scale({value}::text::numeric) > 0 then to_json({value}::text) else to_json({value}) end "
        f"else to_json({value}) end end"
    )


def _read(results: BinaryIO, __: BinaryIO | None) -> Iterator[StoredResult]:
    for line in results:
        _, index, custom_id, prediction, error, *copied = map(
            _value, line.rstrip(b"\n").split(b"\t")
        )
        yield StoredResult(
            int(index or b""),
            None if custom_id is None else custom_id.decode(),
            (copied[0] or b"{}").strip()[1:-1] if copied else b"",
            b"" if prediction is None else prediction,
            None if error is None else error_of(orjson.loads(error)),
        )


def _value(cell: bytes) -> bytes | None:
    if cell == _NULL:
        return None
    return (
        _ESCAPED.sub(lambda found: _RAW.get(found[0], found[0][1:]), cell)
        if b"\\" in cell
        else cell
    )


ROWS_OF_COPY: Final = ReadableResults(_read)
"""The lines, as the results of a part."""
