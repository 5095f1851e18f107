"""Results in formats with columns: runs with the real program, from and to claims and buckets."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from pyarrow import ipc, parquet

from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.servers import CountingModel, nothing
from tests.integration.runner.test_retry_of import reject, retry

COUNT = 400
BAD = {3, 250}
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
Rows = list[dict[str, Any]]  # Any: what a file has


def rows_of_csv(content: bytes) -> Rows:
    rows: Rows = list(csv.DictReader(io.StringIO(content.decode())))
    typed: dict[str, Callable[[str], Any]] = {"index": int, "prediction": json.loads, "error": json.loads}
    return [{name: typed.get(name, str)(cell) if cell else None for name, cell in row.items()} for row in rows]


READERS: dict[str, Callable[[bytes], Rows]] = {
    "parquet": lambda content: parquet.read_table(pyarrow.BufferReader(content)).to_pylist(),
    "arrow": lambda content: ipc.open_file(pyarrow.BufferReader(content)).read_all().to_pylist(),
    "csv": rows_of_csv,
}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    lines = (json.dumps({"custom_id": f"c{index}", "inputs": [index, 0.5]}) for index in range(COUNT))
    (file.input / "data" / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))


def results(folder: Path, form: str) -> Rows:
    parts = sorted((folder / "predictions").iterdir())
    assert {part.suffix for part in parts} == {f".{form}"}
    return [row for part in parts for row in READERS[form](part.read_bytes())]


def expected(index: int, *, failed: bool) -> dict[str, Any]:
    prediction = None if failed else index + 0.5
    return {"index": index, "custom_id": f"c{index}", "prediction": prediction, "error": failed}


def checked(found: Rows) -> Rows:
    return [{**row, "error": row["error"] is not None} for row in found]


@pytest.mark.parametrize("form", READERS)
async def test_results_are_tables_and_errors_are_lines(file: Machine, model: CountingModel, form: str) -> None:
    file.contract["output"]["file"]["format"] = form
    reject(model, BAD)
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.records.failed) == (0, len(BAD)), ended.stderr
    folder = file.output / "results" / str(file.contract["jobName"])
    found = results(folder, form)
    assert checked(found) == [expected(index, failed=index in BAD) for index in range(COUNT)]
    assert {row["error"]["code"] for row in found if row["error"]} == {"rejected"}
    errors = [
        orjson.loads(line)
        for path in sorted((folder / "errors").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert [one["custom_id"] for one in errors] == ["c3", "c250"]


@pytest.mark.parametrize("form", READERS)
async def test_what_failed_can_be_retried(file: Machine, model: CountingModel, form: str) -> None:
    file.contract["output"]["file"]["format"] = form
    reject(model, BAD)
    first = await file.process(**SMALL)
    model.rows.clear()
    model.before = nothing
    retry(file, first)
    second = await file.process(**SMALL)
    assert (second.code, second.message) == (0, f"{COUNT} of {COUNT} records predicted"), second.stderr
    assert set(model.rows) == BAD
    folder = file.output / "results" / str(file.contract["jobName"])
    assert checked(results(folder, form)) == [expected(index, failed=False) for index in range(COUNT)]


async def test_tables_are_stored_in_buckets(file: Machine, model: CountingModel, tmp_path: Path) -> None:
    reject(model, BAD)
    async with s3_server(tmp_path / "s3") as server:
        file.contract["output"] = {"s3": server.spec("results", format="parquet")}
        credentials(file.folder / "endpoints" / "output")
        ended = await file.process(**SMALL)
        assert ended.code == 0, ended.stderr
        folder = server.bucket / "results" / str(file.contract["jobName"])
        found = results(folder, "parquet")
        assert {path.suffix for path in (folder / "errors").iterdir()} == {".jsonl"}
    assert checked(found) == [expected(index, failed=index in BAD) for index in range(COUNT)]
