"""The memory that reading results takes is that of a part, however many parts a run has."""

import base64
import hashlib
import io
import tracemalloc
from collections import deque
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from inferrun import Contract, dump_contract, parse_run
from inferrun.manifest import Manifest, ManifestPart, ManifestRecords
from inferrun.results import Results, read_results

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
    form, total = request.param, PARTS * ROWS
    folder = tmp_path / "out" / "job"
    (folder / "predictions").mkdir(parents=True)
    parts = []
    for number in range(PARTS):
        content = content_of(number * ROWS, form)
        name = f"predictions/part-{number:06}.{form}"
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        parts.append(ManifestPart(file=name, bytes=len(content), sha256=digest, first=number * ROWS, records=ROWS))
    counts = ManifestRecords(total=total, completed=total, failed=0)
    names = {"run_id": "uid", "job_name": "job", "model_name": "", "model_url": "", "contract_sha256": ""}
    manifest = Manifest(**names, runner_version="1", fingerprint="", records=counts, parts=tuple(parts)).text()
    (folder / "manifest.json").write_bytes(manifest)
    output = {"file": {"claimName": "data", "path": "out", "format": form}}
    contract = dump_contract(Contract(job_id="uid", run_id="uid", job_name="job", output=output))
    status = {
        "phase": "Succeeded",
        "contract": base64.b64encode(contract.encode()).decode(),
        "output": {"sha256": hashlib.sha256(manifest).hexdigest()},
    }
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
