"""Results in formats with columns: runs with the real program, from and to claims and buckets."""

import csv
import io
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from aiohttp import web
from pyarrow import dataset, ipc, parquet

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel

COUNT = 400
BAD = {3, 250}
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
Rows = list[dict[str, Any]]  # Any: what a file has


def rows_of_csv(content: bytes) -> Rows:
    rows: Rows = list(csv.DictReader(io.StringIO(content.decode())))
    typed: dict[str, Callable[[str], Any]] = {
        "index": int,
        "prediction": json.loads,
        "error": json.loads,
    }
    return [
        {name: typed.get(name, str)(cell) if cell else None for name, cell in row.items()}
        for row in rows
    ]


READERS: dict[str, Callable[[bytes], Rows]] = {
    "parquet": lambda content: parquet.read_table(pyarrow.BufferReader(content)).to_pylist(),
    "arrow": lambda content: ipc.open_file(pyarrow.BufferReader(content)).read_all().to_pylist(),
    "csv": rows_of_csv,
}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    file.write_rows({"custom_id": f"c{index}", "inputs": [index, 0.5]} for index in range(COUNT))


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
async def test_results_are_tables_and_so_are_errors_unless_they_have_no_types(
    file: Machine, model: CountingModel, form: str
) -> None:
    file.contract["output"]["file"]["format"] = form
    model.reject(BAD)
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.records.failed) == (0, len(BAD)), ended.stderr
    folder = file.run_folder
    found = results(folder, form)
    assert checked(found) == [expected(index, failed=index in BAD) for index in range(COUNT)]
    assert {row["error"]["code"] for row in found if row["error"]} == {"rejected"}
    (stored,) = (folder / "errors").iterdir()
    assert stored.suffix == (".jsonl" if form == "csv" else f".{form}")
    content = stored.read_bytes()
    errors = (
        list(map(orjson.loads, content.splitlines())) if form == "csv" else READERS[form](content)
    )
    assert errors == [
        {name: row[name] for name in ("index", "custom_id", "error")}
        for row in found
        if row["error"]
    ]


@pytest.mark.parametrize("form", READERS)
async def test_what_failed_can_be_retried(file: Machine, model: CountingModel, form: str) -> None:
    file.contract["output"]["file"]["format"] = form
    model.reject(BAD)
    first = await file.process(**SMALL)
    model.accept()
    file.retry(first)
    second = await file.process(**SMALL)
    assert (second.code, second.message) == (0, f"{COUNT} of {COUNT} records predicted"), (
        second.stderr
    )
    assert set(model.rows) == BAD
    folder = file.run_folder
    assert checked(results(folder, form)) == [
        expected(index, failed=False) for index in range(COUNT)
    ]
    assert file.manifest["retryOf"] == file.contract["retryOf"]["runId"]
    assert not (folder / "errors").exists()


TYPED = pyarrow.table(
    {
        "custom_id": pyarrow.array([f"c{index}" for index in range(COUNT)]).dictionary_encode(),
        "day": pyarrow.array([date(2026, 11, 24)] * COUNT),
        "price": pyarrow.array([Decimal("1.50")] * COUNT, pyarrow.decimal128(20, 2)),
        "seen": pyarrow.array([1] * COUNT, pyarrow.timestamp("ns", "UTC")),
        "raw": pyarrow.array([b"\xff"] * COUNT),
        "tags": pyarrow.array([["a", None]] * COUNT),
        "x": pyarrow.array(range(COUNT), pyarrow.float32()),
    }
)
COPIED = ["day", "price", "seen", "raw", "tags"]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
async def test_all_parts_have_the_columns_of_the_input_and_one_type(
    file: Machine, model: CountingModel, form: str
) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        (tensor,) = orjson.loads(await request.read())["inputs"]
        if BAD & set(tensor["data"]):
            return web.Response(status=422)
        values = [int(one) if one < 100 or one % 2 else one + 0.25 for one in tensor["data"]]
        output = {"name": "predict", "shape": [len(values)], "datatype": "FP32", "data": values}
        return web.json_response({"model_name": "sum", "outputs": [output]})

    model.before = whole
    parquet.write_table(TYPED, file.input / "data" / "rows.parquet", row_group_size=50)
    file.contract["input"]["file"] |= {"path": "data/rows.parquet", "format": "parquet"}
    file.contract["output"]["file"] |= {"format": form, "layout": {"partSize": "10Ki"}}
    file.contract["passThroughColumns"] = COPIED
    ended = await file.process(**SMALL)
    assert ended.code == 0, ended.stderr
    folder = file.run_folder
    table = dataset.dataset(
        folder / "predictions", format="ipc" if form == "arrow" else form
    ).to_table()
    assert len(list((folder / "predictions").iterdir())) > 3
    if form == "parquet":
        assert parquet.read_table(folder / "predictions").equals(table)
    assert table.select(COPIED).cast(TYPED.select(COPIED).schema).equals(TYPED.select(COPIED))
    assert table.schema.field("price").type == pyarrow.decimal128(20, 2)
    assert table.schema.field("custom_id").type == pyarrow.string()
    assert table.schema.field("prediction").type == pyarrow.float32()
    assert table.column("prediction")[:4].to_pylist() == [0.0, 1.0, 2.0, None]
    errors = dataset.dataset(
        folder / "errors", format="ipc" if form == "arrow" else form
    ).to_table()
    assert errors.schema.equals(table.drop_columns("prediction").schema)
    failed = TYPED.drop_columns(["raw", "tags"]).join(
        errors.select(["custom_id", "index"]), "custom_id", join_type="inner"
    )
    assert set(failed.column("index").to_pylist()) == BAD  # Arrow joins no tables with lists
    assert (
        errors.select(COPIED)
        .cast(TYPED.select(COPIED).schema)
        .equals(TYPED.select(COPIED).take(sorted(BAD)))
    )
    stored = orjson.loads((folder / "run.json").read_bytes())["resultSchema"]
    assert [one["name"] for one in stored["columns"]] == [
        "index",
        "custom_id",
        *COPIED,
        "prediction",
        "error",
    ]
    assert stored["columns"][3] == {"name": "price", "type": "decimal128(20, 2)", "role": "copied"}


async def test_a_prediction_that_does_not_fit_the_declared_type_is_an_error_of_its_record(
    file: Machine, model: CountingModel
) -> None:
    file.contract["output"]["file"] |= {"format": "parquet", "types": {"prediction": "int32"}}

    async def one_fraction(request: web.Request) -> web.StreamResponse:
        (tensor,) = orjson.loads(await request.read())["inputs"]
        values = [7.5 if first == 3 else int(first) for first in tensor["data"][::2]]
        output = {"name": "predict", "shape": [len(values)], "datatype": "FP32", "data": values}
        return web.json_response({"model_name": "sum", "outputs": [output]})

    model.before = one_fraction
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.records.failed) == (0, 1), ended.stderr
    folder = file.run_folder
    table = parquet.read_table(folder / "predictions")
    assert table.schema.field("prediction").type == pyarrow.int32()
    assert table.column("prediction").to_pylist() == [
        None if index == 3 else index for index in range(COUNT)
    ]
    error = table.column("error").to_pylist()[3]
    assert error["code"] == "invalid_prediction"
    assert "is not of type int32" in error["message"]
