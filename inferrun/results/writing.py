"""Results as a file: JSON lines, CSV, Parquet or Arrow, by the name of the file. Takes the memory of a part."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from inferrun.results.access import load
from inferrun.results.errors import ResultsError
from inferrun.results.table import Results, Row

if TYPE_CHECKING:
    import pyarrow

SUFFIXES: Final = (".jsonl", ".csv", ".parquet", ".arrow")


def write_results(results: Results, path: Path) -> None:
    """Write the rows to a file, which is there only when it is complete. Raises ResultsError, OSError."""
    if path.suffix not in SUFFIXES:
        raise ResultsError(f"{path.name!r} has no known extension; allowed: {', '.join(SUFFIXES)}")
    with _replaced(path) as out:
        if path.suffix == ".jsonl":
            out.writelines(_dumps(row) + b"\n" for row in results)
            return
        with _writer(out, results.schema, suffix=path.suffix) as write:
            for batch in results.batches():
                write(batch)


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as out:
            yield out
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _writer(
    out: BinaryIO, schema: "pyarrow.Schema", *, suffix: str
) -> Iterator[Callable[["pyarrow.RecordBatch"], object]]:
    if suffix == ".parquet":
        with load("pyarrow.parquet", extra="results").ParquetWriter(out, schema) as tables:
            yield tables.write_batch
    elif suffix == ".arrow":
        with load("pyarrow", extra="results").ipc.new_file(out, schema) as batches:
            yield batches.write_batch
    else:
        text = io.TextIOWrapper(out, encoding="utf-8", newline="")
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(schema.names)
        texts_in = load("inferrun.formats.json_columns", extra="results").texts_in
        yield lambda batch: lines.writerows(zip(*(map(_cell, texts_in(one)) for one in batch.columns), strict=True))
        text.flush()
        text.detach()


def _cell(text: bytes | None) -> str:
    """Return the JSON text of a value as it is written: a string without its quotes, and null as nothing."""
    if text is None or text == b"null":
        return ""
    return str(load("orjson", extra="results").loads(text)) if text.startswith(b'"') else text.decode()


def _dumps(row: Row) -> bytes:
    found: bytes = load("orjson", extra="results").dumps(row, default=str)
    return found
