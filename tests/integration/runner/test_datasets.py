"""Folders of typed files: partitions, one schema, what is read, and what is found before the first
request."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from aiohttp import web
from pyarrow import parquet

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, nothing


@pytest.fixture
def dataset(file: Machine) -> Machine:
    """A run that reads the Parquet files below `data`."""
    file.contract["input"]["file"] |= {"path": "data", "format": "parquet"}
    return file


def store(machine: Machine, name: str, **columns: Any) -> None:  # Any: values of a column
    path = machine.input / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)


def fail_after(model: CountingModel, rows: int) -> None:
    """Let the model server be unavailable after it has predicted so many rows."""

    async def refuse(_: web.Request) -> web.Response | None:
        return web.Response(status=503) if model.rows.total() >= rows else None

    model.before = refuse


async def test_partitions_are_columns_that_can_be_copied(dataset: Machine) -> None:
    store(dataset, "dt=2026-11-23/hour=1/a.parquet", x=pyarrow.array([1, 2], pyarrow.int32()))
    store(dataset, "dt=2026-11-24/hour=2/b.parquet", x=pyarrow.array([3], pyarrow.int64()))
    dataset.contract["joinSource"] = "Input"
    await dataset.success("3 of 3 records predicted")
    assert [(one["prediction"], one["x"], one["dt"], one["hour"]) for one in dataset.results] == [
        (1.0, 1, "2026-11-23", 1),
        (2.0, 2, "2026-11-23", 1),
        (3.0, 3, "2026-11-24", 2),
    ]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
async def test_partitions_of_files_of_text_are_columns_too(file: Machine, form: str) -> None:
    file.contract["input"]["file"] |= {"path": "data/k=*/*", "format": form}
    for key, content in (
        ("1", {"jsonl": '{"inputs": [1]}\n', "csv": "x\n1\n"}),
        ("2", {"jsonl": '{"inputs": [2]}', "csv": "x\n2"}),
    ):
        (file.input / "data" / f"k={key}").mkdir()
        (file.input / "data" / f"k={key}" / f"a.{form}").write_text(content[form])
    file.contract["passThroughColumns"] = ["k"]
    await file.success("2 of 2 records predicted")
    assert [(one["k"], one["prediction"]) for one in file.results] == [(1, 1.0), (2, 2.0)]


async def test_a_conflict_is_found_before_the_first_request(
    dataset: Machine, model: CountingModel
) -> None:
    store(dataset, "a.parquet", x=list(range(1000)))
    store(dataset, "b.parquet", x=["text"])
    ended = await dataset.failure(3, INFERRUN_CHUNK_BYTES="100")
    assert ended.message.startswith(
        "b.parquet: column 'x' has type string, the files before have int64 (first: a.parquet)"
    )
    assert "set types.x" in ended.message
    assert not model.rows


async def test_types_solve_a_conflict_and_a_value_that_does_not_fit_fails_its_record(
    dataset: Machine,
) -> None:
    store(dataset, "a.parquet", x=[1, 2])
    store(dataset, "b.parquet", x=["3", "text"])
    dataset.contract["input"]["file"]["types"] = {"x": "double"}
    ended = await dataset.success()
    assert ended.message.partition(",")[0] == "3 of 4 records predicted; 1 failed"
    *_, last = dataset.results
    assert (
        last["error"]["message"]
        == "b.parquet, row 2: the value of column 'x' is not of type double"
    )


@pytest.mark.parametrize(
    ("settings_", "text"),
    [
        ({"types": {"y": "double"}}, "input.file.types.y: a.parquet has no such column"),
        (
            {"types": {"x": "number"}},
            'input.file.types.x is "number"; it is not a type; allowed are bool',
        ),
        ({"partitions": {"dt": "date32"}}, "partitions.dt: the path of no file has dt="),
        (
            {"format": "jsonl", "path": "data/a.parquet", "types": {"x": "double"}},
            'input.file.types is "set"; the format has no typed',
        ),
    ],
)
async def test_a_setting_that_cannot_apply_is_reported(
    dataset: Machine, settings_: dict[str, Any], text: str
) -> None:
    store(dataset, "a.parquet", x=[1])
    dataset.contract["input"]["file"] |= settings_
    ended = await dataset.pod()
    assert ended.code in (2, 3)
    assert ended.message.startswith(text)


async def test_an_empty_input_fails_unless_it_may_be_empty(dataset: Machine) -> None:
    (dataset.input / "data" / "a.parquet").touch()
    store(dataset, "b.parquet", x=pyarrow.array([], pyarrow.float64()))
    ended = await dataset.failure(3)
    assert ended.message.startswith(
        "input.file: the input has no records (not read: empty 1 (a.parquet)"
    )
    dataset.contract["input"]["file"]["allowEmpty"] = True
    ended = await dataset.success()
    assert ended.message.partition(";")[0] == "0 of 0 records predicted"


async def test_the_files_are_fixed_when_the_run_begins(
    dataset: Machine, model: CountingModel
) -> None:
    store(dataset, "b.parquet", x=list(range(100)))
    store(dataset, "c.parquet", x=list(range(100, 200)))
    fail_after(model, 120)
    await dataset.failure(4, INFERRUN_CHUNK_BYTES="100", INFERRUN_BATCH_ROWS="10")
    model.before = nothing
    store(dataset, "a.parquet", x=["another type"])
    await dataset.success("200 of 200 records predicted", INFERRUN_BATCH_ROWS="10")
    assert [one["prediction"] for one in dataset.results] == list(range(200))
    run = json.loads((dataset.output / "results" / "inf-sums-5be07ada" / "run.json").read_text())
    assert [(name, partition) for name, _, _, partition in run["objects"]] == [
        ("b.parquet", {}),
        ("c.parquet", {}),
    ]


async def test_a_file_that_is_missing_ends_the_run(dataset: Machine, model: CountingModel) -> None:
    store(dataset, "a.parquet", x=list(range(100)))
    store(dataset, "b.parquet", x=[1])
    fail_after(model, 10)
    await dataset.failure(4, INFERRUN_CHUNK_BYTES="100", INFERRUN_BATCH_ROWS="10")
    (dataset.input / "data" / "b.parquet").unlink()
    ended = await dataset.failure(3)
    assert ended.message.partition(",")[0] == "input.file: b.parquet is missing"


async def test_a_link_in_a_nested_folder_is_not_followed(dataset: Machine, tmp_path: Path) -> None:
    store(dataset, "dt=1/a.parquet", x=[1])
    (tmp_path / "secret").mkdir()
    parquet.write_table(pyarrow.table({"x": [2]}), tmp_path / "secret" / "b.parquet")
    (dataset.input / "data" / "dt=2").symlink_to(tmp_path / "secret")
    ended = await dataset.pod()
    assert ended.message.startswith("1 of 1 records predicted")
    (dataset.input / "data" / "dt=1" / "c.parquet").symlink_to(tmp_path / "secret" / "b.parquet")
    dataset.contract["jobName"] = "another"
    await dataset.failure(3, "dt=1/c.parquet is a link")
