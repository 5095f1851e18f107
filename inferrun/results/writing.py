"""Results as a file: JSON lines, CSV, Parquet or Arrow, by the name of the file. Takes the memory
of a part."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from inferrun.results.access import load
from inferrun.results.errors import ResultsError
from inferrun.results.table import PredictedRows

if TYPE_CHECKING:
    import pyarrow

SUFFIXES: Final = (".jsonl", ".csv", ".parquet", ".arrow")
_IN_QUOTES: Final = re.compile('[",\r\n]')


def write_results(results: PredictedRows, path: Path) -> None:
    """Write the rows to a file, which is there only when it is complete. Raises ResultsError,
    OSError."""
    if path.suffix not in SUFFIXES:
        raise ResultsError(f"{path.name!r} has no known extension; allowed: {', '.join(SUFFIXES)}")
    with _replaced(path) as out:
        if path.suffix == ".jsonl":
            out.writelines(line + b"\n" for line in results.json_lines())
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
        with load("pyarrow.parquet").ParquetWriter(out, schema) as tables:
            yield tables.write_batch
    elif suffix == ".arrow":
        with load("pyarrow").ipc.new_file(out, schema) as batches:
            yield batches.write_batch
    else:
        out.write(_line(map(_quoted, schema.names)))
        texts_in = load("inferrun.formats.json_columns").texts_in
        yield lambda batch: out.writelines(
            map(_line, zip(*(map(_cell, texts_in(one)) for one in batch.columns), strict=True))
        )


def _line(cells: Iterable[str]) -> bytes:
    return (",".join(cells) + "\n").encode()


def _cell(text: bytes | None) -> str:
    """Return the JSON text of a value as it is written: null as nothing, and a string with its
    quotes only where CSV needs them."""
    if text is None or text == b"null":
        return ""
    return _quoted(str(load("orjson").loads(text)) if text.startswith(b'"') else text.decode())


def _quoted(text: str) -> str:
    """Return a cell that is not null: an empty text is in quotes (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"' if not text or _IN_QUOTES.search(text) else text
