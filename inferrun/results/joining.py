"""The records of a run's input, read as the runner reads them, so that each one meets its own
result.

The input may have changed since. The number of records and their ids are compared with the results,
and in a bucket also the keys, sizes and ETags of the objects.
"""

import gzip
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Final, cast

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.compressions import compressions_of
from inferrun.formats.dataset import find, partitions_of, split_pattern
from inferrun.formats.declared import as_declared
from inferrun.formats.named_columns import columns_of
from inferrun.formats.partitions import DatasetFile
from inferrun.manifest import Manifest, fingerprint_of_objects
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Block,
    Chunk,
    ColumnSelection,
    Json,
    Limits,
    PlannedObject,
    RunnerError,
)
from inferrun.resources.templates import SETTING
from inferrun.results.access import Access, load
from inferrun.results.bucket import BucketFiles
from inferrun.results.committed import CommittedOutput, storage_of
from inferrun.results.database import DatabaseRows
from inferrun.results.directory import DirectoryFiles
from inferrun.results.errors import InputChanged, NoResults, ResultsError, ResultsUnreachable
from inferrun.results.files import Files
from inferrun.results.stores import load_format
from inferrun.results.table import InputRow, ReadInput, Row
from inferrun.stores import OBJECT_STORES, FileStorage, ObjectStorage, SqlStorage
from inferrun.stores.sql import bound_values

_KEY: Final = "inferrun_key"
"""The column with the id of a row, if the query has none."""

_RECORD: Final = "inputs"
"""The column of records that are not objects and have no columns."""

_ROWS_AT_ONCE: Final = 1000

_GZIP: Final = b"\x1f\x8b"
"""The first bytes of what gzip has written."""


def input_reader(output: CommittedOutput, manifest: Manifest, access: Access) -> ReadInput:
    """Return what reads the input of a run. Raises ResultsError."""
    label = next(iter(output.contract.input), "")
    stored = output.contract.input.get(label, {})
    if label == FileStorage.label:
        storage = storage_of(FileStorage, stored, field="input.file")
        root = access.claim(storage.claim_name)
        if root is None:
            raise ResultsUnreachable(
                f"the input of {output.run} is on claim {storage.claim_name!r}; pass directory= with a mapping that has its path"
            )
        return _reader_of_files(DirectoryFiles(root), storage, output)
    if label in OBJECT_STORES:
        bucket = storage_of(OBJECT_STORES[label], stored, field=f"input.{label}")
        return _reader_of_files(
            BucketFiles(bucket, access), bucket, output, expected=manifest.fingerprint
        )
    if label == SqlStorage.label:
        own, values = bound_values(stored)
        table = storage_of(SqlStorage, own, field="input.sql")
        database = DatabaseRows(table, access)
        return lambda: _query(database, table, values)
    if (upstream := output.contract.input_run) is not None:
        raise NoResults(
            f"the input of {output.run} are the results of run {upstream.name!r}; read these, and join both by index"
        )
    raise NoResults(
        f"an input of the label {label!r} cannot be read again, so the results cannot be joined with it; set joinSource: Input in "
        "the config, and the runner copies it to the results"
    )


def _reader_of_files(
    files: Files,
    storage: FileStorage | ObjectStorage,
    output: CommittedOutput,
    *,
    expected: str = "",
) -> ReadInput:
    name = storage.format
    record_format = load_format(name)
    columns = columns_of(output.contract)
    able = record_format.abilities
    if (columns or able.typed) and able.with_columns:
        record_format = able.with_columns(
            ColumnSelection(columns.fed, columns.copied, copies_all=True)
        )
    record_format = as_declared(record_format, storage)

    def read() -> Iterator[InputRow]:
        folder, found = _find(files, storage, suffixes=record_format.suffixes)
        if not found:
            raise InputChanged(f"the input of {output.run} is not there any more: {storage.path}")
        if (
            expected
            and fingerprint_of_objects((folder + one.name, one.size, one.tag) for one in found)
            != expected
        ):
            raise InputChanged(
                f"the objects of the input of {output.run} have changed since it read them"
            )
        for one, partition in zip(found, partitions_of(found, storage.partitions), strict=True):
            with _spooled(files, folder + one.name, is_named=bool(record_format.suffixes)) as path:
                file = DatasetFile(one.name, _SpooledFile(one.name, path), partition)
                whole = Chunk(0, 0, 0, sys.maxsize, 0, 1)
                try:
                    reader = record_format
                    if typed := record_format.abilities.typed:
                        reader = typed.with_schema(typed.schema(file))
                    for block in reader.read(file, whole, limits=Limits()):
                        yield from _rows_of(block, is_object=name == "openai")
                except (RunnerError, OSError) as error:
                    raise ResultsError(f"the input cannot be joined: {error}") from error

    return read


def _find(
    files: Files, storage: FileStorage | ObjectStorage, *, suffixes: Sequence[str]
) -> tuple[str, Sequence[PlannedObject]]:
    """Return a folder, whose name is empty or ends with "/", and what a run reads of it."""
    base, pattern = split_pattern(storage.path)
    below = files.find(base)
    if [one.name for one in below] == [base]:
        folder, slash, name = base.rpartition("/")
        return folder + slash, [PlannedObject(name, below[0].size, below[0].tag)]
    folder = f"{base.rstrip('/')}/" if base else ""
    names = (replace(one, name=one.name.removeprefix(folder)) for one in below)
    is_stated = storage.states_format
    return folder, find(
        names, pattern=pattern, suffixes=suffixes, field="path", is_stated=is_stated
    ).objects


@dataclass(frozen=True, slots=True)
class _SpooledFile:
    name: str
    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def open(self) -> BinaryIO:
        return self.path.open("rb")


@contextmanager
def _spooled(files: Files, name: str, *, is_named: bool) -> Iterator[Path]:
    """Copy a file to the disk, where it can be read from the middle, and decompress it.

    Google decompresses what is stored with Content-Encoding: gzip, also a file whose name still
    says that it is compressed.
    """
    with tempfile.TemporaryDirectory(prefix="inferrun-") as folder:
        stored = Path(folder) / "stored"
        with stored.open("wb") as out:
            encoding = files.copy(name, out)
        try:
            found = compressions_of(name, encoding, is_named=is_named)
        except ValueError as error:
            raise ResultsError(f"{name} is stored with {error}") from error
        for number, compression in enumerate(found):
            with stored.open("rb") as start:
                if compression == "gzip" and start.read(2) != _GZIP:
                    break
            with (
                _decompressed(stored, compression) as source,
                (Path(folder) / f"{number}").open("wb") as out,
            ):
                shutil.copyfileobj(source, out, 1 << 20)
            stored = Path(folder) / f"{number}"
        yield stored


def _decompressed(path: Path, compression: str) -> BinaryIO:
    if compression == "gzip":
        return cast("BinaryIO", gzip.open(path))
    return cast("BinaryIO", load("pyarrow").CompressedInputStream(str(path), "zstd"))


def _rows_of(block: Block, *, is_object: bool) -> Iterator[InputRow]:
    loads = load("orjson").loads
    if isinstance(block.records, ArrowRecords):
        records: list[Json] = block.records.table.to_pylist()
    else:
        records = [loads(text) for text in block.records.texts]
    copied = load("inferrun.formats.record_texts").copied_texts(block)
    for at, record in enumerate(records):
        columns: Row = loads(b"{%b}" % copied[at]) if copied else {}
        if block.columns and isinstance(record, list):
            columns |= zip(block.columns, record, strict=True)
        elif isinstance(record, dict) and (is_object or isinstance(block.records, ArrowRecords)):
            columns |= record
        elif not copied:
            columns = {_RECORD: record}
        yield _named({} if at in block.errors else columns), block.ids[at] if block.ids else None


def _named(columns: Row) -> Row:
    """Return columns of the input beside the members of a result."""
    return {
        f"input_{name}" if name in RESULT_MEMBERS else name: value
        for name, value in columns.items()
        if name != ID_COLUMN
    }


def _query(
    database: DatabaseRows, storage: SqlStorage, values: Sequence[str]
) -> Iterator[InputRow]:
    """Yield the rows of the query of the input, in the order in which the runner reads them."""
    sql = load("psycopg.sql")
    query = storage.statement
    # The line break ends a comment at the end of the query.
    keys = storage.key
    given = sql.SQL(", ").join([sql.Identifier("q", name) for name in keys])
    text = sql.SQL("select * from ({}\n) q").format(sql.SQL(query))
    if keys:  # whose text is the id, as the runner has it
        id_text = sql.SQL(
            "format('%s', {})" if len(keys) == 1 else "jsonb_build_array({})::text"
        ).format(given)
        text = sql.SQL("select *, {} as {} from ({}\n) q order by {}").format(
            id_text, sql.Identifier(_KEY), sql.SQL(query), given
        )
    with database.connected() as connection:
        for number, value in enumerate(values, 1):
            connection.execute("select set_config(%s, %s, true)", [f"{SETTING}{number}", value])
        with connection.cursor(name="inferrun") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(text)
            names = [one.name for one in cursor.description or ()]
            for found in cursor:
                row = {name: _json_of(value) for name, value in zip(names, found, strict=True)}
                key = row.pop(_KEY, None)
                custom_id = row.get(ID_COLUMN, key)
                yield _named(row), custom_id if isinstance(custom_id, (str, int)) else None


def _json_of(value: object) -> Json:
    if isinstance(value, Decimal):
        nearest = int(value) if value == value.to_integral_value() else float(value)
        return nearest if Decimal(repr(nearest)) == value else str(value)
    return (
        cast("Json", value)
        if isinstance(value, (bool, int, float, str, list, dict, type(None)))
        else str(value)
    )
