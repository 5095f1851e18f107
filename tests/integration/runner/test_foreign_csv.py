"""Texts that other software wrote as CSV, in the dialects of `docs/reference/stores.md`: each is
the one that it reads itself.

A few programs do not read what they wrote: their files are compared with the texts, which are in
`tests/foreign/texts.json`.
"""

import json
from typing import Any, Final

import orjson
import pytest

from inferrun.formats.csv.dialect import CsvDialect
from inferrun.formats.csv.format import Csv
from inferrun.formats.jsonl.format import Jsonl
from inferrun.formats.record_texts import copied_texts
from inferrun.plugins import Chunk, ColumnSelection, InputError, Limits, RecordFormat
from inferrun_runner.stores.file.local_files import MemoryFile
from tests.foreign.software import HERE, files_of, readings_of

Settings = dict[str, Any]  # Any: JSON

ESCAPED: Final[Settings] = {"escape": "\\"}
DUMP: Final[Settings] = {
    "delimiter": "\t",
    "quote": "",
    "escape": "\\",
    "nullValues": ["\\N"],
    "columns": ["id", "t"],
}
ENCLOSED: Final[Settings] = {
    "escape": "\\",
    "escapeUnquoted": True,
    "nullValues": ["\\N"],
    "columns": ["id", "t"],
}
PYTHON: Final[Settings] = {"escape": "\\", "escapeUnquoted": True}

SETTINGS: Final[dict[str, Settings]] = {
    "text-python/pandas.csv": {},
    "text-python/pandas-all-quoted.csv": {},
    "text-python/pandas-escaped.csv": PYTHON,
    "text-python/pandas-unquoted.csv": {"quote": "", "escape": "\\"},
    "text-python/polars.csv": {},
    "text-python/polars-one-column.csv": {},
    "text-python/duckdb.csv": {},
    "text-python/duckdb-escaped.csv": {**ESCAPED, "nullValues": ["NULL"]},
    "text-python/duckdb-one-column.csv": {},
    "text-python/clickhouse.tsv": DUMP,
    "text-python/clickhouse-names.tsv": {**DUMP, "columns": []},
    "text-python/clickhouse.csv": {"nullValues": ["\\N"]},
    "text-spark/spark.csv": ESCAPED,
    "text-spark/spark-all-quoted.csv": ESCAPED,
    "text-spark/spark-doubled.csv": {},
    "text-spark/spark-null-and-tabs.csv": {**ESCAPED, "delimiter": "\t", "nullValues": ["\\N", ""]},
    "text-spark/hive": {**DUMP, "delimiter": "\x01", "escape": ""},
    "text-spark/hive-escaped": DUMP,
    "text-databases/postgresql.txt": DUMP,
    "text-databases/postgresql-pipes.txt": {**DUMP, "delimiter": "|", "nullValues": ["null"]},
    "text-databases/postgresql-one-column.txt": {**DUMP, "columns": ["t"]},
    "text-databases/postgresql.csv": {},
    "text-databases/postgresql-null.csv": {"nullValues": ["\\N"]},
    "text-databases/postgresql-escaped.csv": ESCAPED,
    "text-databases/postgresql-one-column.csv": {},
    "text-databases/mariadb.txt": DUMP,
    "text-databases/mariadb-enclosed.csv": ENCLOSED,
    "text-databases/mariadb-all-enclosed.csv": ENCLOSED,
    "text-databases/sqlite.csv": {},
    "text-databases/sqlite-one-column.csv": {},
    "text-go/go.csv": {},
    "text-javascript/csv-stringify.csv": {},
    "text-javascript/csv-stringify-escaped.csv": ESCAPED,
    "text-javascript/papaparse.csv": {},
    "text-javascript/papaparse-one-column.csv": {},
}

WITHOUT_NULLS: Final = ("text-go", "text-javascript")
"""What is null to others is an empty text to these, which they write alike."""


def rows_of(name: str, reader: RecordFormat) -> list[dict[str, str | None]]:
    """What is copied of each record of a file. Raises InputError."""
    software, _, file_name = name.partition("/")
    file = MemoryFile(file_name, (files_of(software) / file_name).read_bytes())
    pieces = list(reader.plan(file, chunk_bytes=200, limits=Limits()))
    found: list[dict[str, str | None]] = []
    for piece in pieces:
        chunk = Chunk(0, 0, piece.start, piece.end, 0, piece.records)
        blocks = list(reader.read(file, chunk, limits=Limits()))
        assert sum(len(block.records) for block in blocks) == piece.records
        assert not any(block.errors for block in blocks)
        found += [orjson.loads(b"{%b}" % one) for block in blocks for one in copied_texts(block)]
    return found


def by_csv(name: str, settings: Settings) -> list[dict[str, str | None]]:
    names = ("t",) if "one-column" in name else ("id", "t")
    return rows_of(
        name, Csv(ColumnSelection(fed=("t",), copied=names), CsvDialect.model_validate(settings))
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_each_text_is_the_one_that_its_writer_reads(name: str) -> None:
    software, _, file_name = name.partition("/")
    found = by_csv(name, SETTINGS[name])
    if software in WITHOUT_NULLS:
        found = [{column: text or "" for column, text in row.items()} for row in found]
    if software == "text-go":  # whose reader, unlike its writer, changes line breaks
        found = [
            {column: (text or "").replace("\r\n", "\n") for column, text in row.items()}
            for row in found
        ]
    assert found == readings_of(software)[file_name]


def test_all_files_are_read() -> None:
    names = {
        f"{path.name}/{name}" for path in HERE.glob("text-*") for name in readings_of(path.name)
    }
    assert names - set(SETTINGS) == {"text-spark/part-00000.json"}


def test_blank_lines_of_one_column_are_records_although_go_skips_those_that_it_wrote() -> None:
    texts = json.loads((HERE / "texts.json").read_text())
    assert by_csv("text-go/go-one-column.csv", {}) == [{"t": text or None} for text in texts]


def test_what_no_program_can_read_is_refused() -> None:
    """pandas 3.1.1 writes a carriage return without quotes, and papaparse 5.7.1 no escape before
    escapes."""
    with pytest.raises(
        InputError, match=r"line 2 is not valid CSV: .* a carriage return is not in quotes"
    ):
        by_csv("text-python/pandas-return.csv", {})
    with pytest.raises(InputError, match=r"is not valid CSV|that does not end"):
        by_csv("text-javascript/papaparse-escaped.csv", ESCAPED)


@pytest.mark.parametrize("name", [name for name, given in SETTINGS.items() if given == ESCAPED])
def test_escapes_that_are_not_set_are_found(name: str) -> None:
    with pytest.raises(
        InputError, match=r'there are quotes with a backslash: set csv.escape: "\\\\"'
    ):
        by_csv(name, {})


def test_nulls_that_spark_leaves_out_of_json_are_null() -> None:
    reader = Jsonl(ColumnSelection(fed=("t",), copied=("id", "t"))).with_nulls()
    expected = [
        {**row, "id": int(row["id"])} for row in readings_of("text-spark")["part-00000.json"]
    ]
    assert rows_of("text-spark/part-00000.json", reader) == expected
