"""The memory that reading results takes is that of a part, however many parts a run has."""

import io
import tracemalloc
from collections import deque
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from inferrun import parse_run
from inferrun.results import Results, read_results
from tests.unit.inferrun.results.committed_folder import commit_folder

PARTS = 40
ROWS = 5000
TEXT = "x" * 190
PART_BYTES = ROWS * 220


def content_of(first: int, form: str) -> bytes:
    if form == "jsonl":
        return b"".join(b'{"index":%d,"prediction":"%b"}\n' % (first + at, TEXT.encode()) for at in range(ROWS))
    error = pyarrow.struct([("code", pyarrow.string()), ("message", pyarrow.string()), ("attempts", pyarrow.int64())])
    columns = {"index": range(first, first + ROWS), "prediction": [f"{at}{TEXT}" for at in range(ROWS)]}
    table = pyarrow.table(columns).append_column("error", pyarrow.nulls(ROWS, error))
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="none")
    return sink.getvalue()


@pytest.fixture(params=["jsonl", "parquet"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Results:
    """The results of a run with many parts."""
    form = request.param
    output = {"file": {"claimName": "data", "path": "out", "format": form}}
    parts = ((content_of(number * ROWS, form), ROWS, 0) for number in range(PARTS))
    status = commit_folder(tmp_path / "out", parts, output=output, form=form)
    spec = {"configRef": {"name": "config"}}
    return read_results(parse_run({"metadata": {"name": "run"}, "spec": spec, "status": status}), directory=tmp_path)


def test_rows_take_the_memory_of_a_part(results: Results) -> None:
    next(iter(results))  # what is imported is not counted
    tracemalloc.start()
    try:
        deque(results, maxlen=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * PART_BYTES


def test_batches_take_the_memory_of_a_part(results: Results) -> None:
    pool = pyarrow.default_memory_pool()
    before, highest, rows = pool.bytes_allocated(), 0, 0
    for batch in results.batches():
        highest = max(highest, pool.bytes_allocated() - before)
        rows += batch.num_rows
    assert rows == PARTS * ROWS
    assert highest < 8 * PART_BYTES
