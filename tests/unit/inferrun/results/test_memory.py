"""The memory that reading results takes is that of a part, however many parts a run has."""

import io
import tracemalloc
from collections import deque
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import cast

import pyarrow
import pytest
from pyarrow import csv, parquet

from inferrun import parse_run
from inferrun.results import PredictedRows, Row, read_results
from tests.unit.inferrun.results.committed_folder import commit_folder

PARTS = 40
ROWS = 5000
TEXT = "x" * 190
PART_BYTES = ROWS * 220


def content_of(first: int, form: str) -> bytes:
    if form == "jsonl":
        return b"".join(
            b'{"index":%d,"prediction":"%b"}\n' % (first + at, TEXT.encode()) for at in range(ROWS)
        )
    error = pyarrow.struct(
        [("code", pyarrow.string()), ("message", pyarrow.string()), ("attempts", pyarrow.int64())]
    )
    columns = {
        "index": range(first, first + ROWS),
        "prediction": [f"{at}{TEXT}" for at in range(ROWS)],
    }
    table = pyarrow.table(columns).append_column("error", pyarrow.nulls(ROWS, error))
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="none")
    return sink.getvalue()


@pytest.fixture(params=["jsonl", "parquet"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> PredictedRows:
    """The results of a run with many parts."""
    form = request.param
    output = {"file": {"claimName": "data", "path": "out", "format": form}}
    parts = ((content_of(number * ROWS, form), ROWS, 0) for number in range(PARTS))
    status = commit_folder(tmp_path / "out", parts, output=output, form=form)
    spec = {"configRef": {"name": "config"}}
    return read_results(
        parse_run({"metadata": {"name": "run"}, "spec": spec, "status": status}), directory=tmp_path
    )


def test_rows_take_the_memory_of_a_part(results: PredictedRows) -> None:
    next(iter(results))  # what is imported is not counted
    tracemalloc.start()
    try:
        deque(results, maxlen=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * PART_BYTES


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_rows_joined_with_the_input_do_not_take_more_memory_for_a_larger_input(
    tmp_path: Path, form: str
) -> None:
    peaks = {}
    for parts in (40, 120):
        results = joined_results(tmp_path / str(parts), form, parts=parts, count=500)
        # what is imported is not counted
        with closing(cast("Generator[Row]", iter(results))) as first:
            assert len(next(first)) >= 5
        pool = pyarrow.default_memory_pool()
        before, highest, rows = pool.bytes_allocated(), 0, 0
        tracemalloc.start()
        try:
            for _ in results:
                highest = max(highest, pool.bytes_allocated() - before)
                rows += 1
            peaks[parts] = tracemalloc.get_traced_memory()[1] + highest
        finally:
            tracemalloc.stop()
        assert rows == parts * 500
    assert peaks[120] < 1.5 * peaks[40], peaks


def joined_results(folder: Path, form: str, *, parts: int, count: int) -> PredictedRows:
    """The results of a run with a file of 20 columns, `count` records in each part, joined with
    it."""
    folder.mkdir()
    path = folder / f"in.{form}"
    row = [at + 0.125 for at in range(20)]
    table = pyarrow.table(
        {f"column_{at}": [value] * (parts * count) for at, value in enumerate(row)}
    )
    if form == "parquet":
        parquet.write_table(table, path, compression="none", row_group_size=count)
    elif form == "csv":
        csv.write_csv(table, path)
    else:
        path.write_text(f"{row}\n" * (parts * count))
    line = b'{"index":%d,"prediction":1}\n'
    contents = (
        b"".join(line % (number * count + at) for at in range(count)) for number in range(parts)
    )
    status = commit_folder(
        folder / "out",
        ((content, count, 0) for content in contents),
        output={"file": {"claimName": "data", "path": "out"}},
        given={"file": {"claimName": "data", "path": path.name, "format": form}},
    )
    run = parse_run(
        {"metadata": {"name": "run"}, "spec": {"configRef": {"name": "config"}}, "status": status}
    )
    return read_results(run, directory=folder, join_input=True)


def test_batches_take_the_memory_of_a_part(results: PredictedRows) -> None:
    pool = pyarrow.default_memory_pool()
    before, highest, rows = pool.bytes_allocated(), 0, 0
    for batch in results.batches():
        highest = max(highest, pool.bytes_allocated() - before)
        rows += batch.num_rows
    assert rows == PARTS * ROWS
    assert highest < 8 * PART_BYTES
