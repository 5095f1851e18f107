"""Columns that feed tensors or are copied to the results, in every format with columns and with V2
as JSON, bytes and gRPC."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import pytest_asyncio
import yaml
from pyarrow import parquet

from tests.integration.runner.documented import valid_spec
from tests.integration.runner.ml_server import MlServer, ml_server
from tests.integration.runner.pods import REPOSITORY, Ended, Machine
from tests.integration.runner.tables import FORMATS, content_of
from tests.integration.runner.tensor_server import TensorServer, tensor_server

pytestmark = pytest.mark.thorough

TABLE: dict[str, list[Any]] = {  # Any: values of a column
    "custom_id": [f"c{index}" for index in range(40)],
    "region": [("north", 'so"uth')[index % 2] for index in range(40)],
    "first": [index / 4 for index in range(40)],
    "city": [("Rome", "Oslo", "Zürich")[index % 3] for index in range(40)],
    "second": list(range(40)),
}
TENSORS: dict[str, Any] = {  # Any: JSON
    "inputs": [
        {"name": "pair", "columns": ["second", "first"]},
        {"name": "city", "columns": ["city"]},
    ],
    "outputs": [{"name": "label"}, {"name": "sum", "resultName": "total"}],
}


@pytest.fixture(params=[False, True], ids=["json", "bytes"])
async def two(request: pytest.FixtureRequest) -> AsyncIterator[TensorServer]:
    async with tensor_server(is_binary=request.param) as server:
        yield server


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[TensorServer]:
    async with tensor_server(is_binary=False) as server:
        yield server


def machine_of(
    folder: Path,
    server: TensorServer,
    name: str,
    table: dict[str, list[Any]] = TABLE,
    **members: Any,
) -> Machine:  # Any: JSON
    kserve = {"modelName": "two", "modelUrl": server.url, "protocolVersion": "v2"}
    machine = Machine(
        folder, contract={"jobId": "uid", "jobName": "inf-two", "kserve": kserve, **members}
    )
    machine.contract["input"] = {
        "file": {"claimName": "given", "path": f"rows.{name}", "format": name}
    }
    machine.contract["output"] = {"file": {"claimName": "made", "path": "out"}}
    (machine.input / f"rows.{name}").write_bytes(content_of(table, name=name))
    return machine


def expected(index: int) -> dict[str, Any]:  # Any: JSON
    return {
        "label": f"{TABLE['city'][index]}!",
        "total": TABLE["first"][index] + TABLE["second"][index],
    }


@pytest.mark.parametrize("name", FORMATS)
async def test_columns_feed_tensors_and_are_copied(
    tmp_path: Path, two: TensorServer, name: str
) -> None:
    machine = machine_of(
        tmp_path / "run", two, name, tensors=TENSORS, passThroughColumns=["region", "second"]
    )
    await machine.success(
        "40 of 40 records predicted", INFERRUN_CHUNK_BYTES="300", INFERRUN_BATCH_ROWS="7"
    )
    assert machine.results == [
        {
            "index": index,
            "custom_id": TABLE["custom_id"][index],
            "region": TABLE["region"][index],
            "second": str(index) if name == "csv" else index,
            "prediction": expected(index),
        }
        for index in range(40)
    ]
    assert [[7, 2], [7]] in [[one["shape"] for one in head["inputs"]] for head in two.requests]
    assert all(
        [one["name"] for one in head["outputs"]] == ["label", "sum"] for head in two.requests
    )


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_an_output_can_be_classes(tmp_path: Path, two: TensorServer, form: str) -> None:
    """The server is a stand-in for Triton: it answers with texts in the form that Triton
    documents."""
    classes = {
        "name": "sum",
        "datatype": "BYTES",
        "shape": [-1, 2],
        "parameters": {"classification": 2},
    }
    tensors = {**TENSORS, "outputs": [classes, {"name": "label"}]}
    machine = machine_of(tmp_path / "run", two, "csv", tensors=tensors)
    machine.contract["output"]["file"]["format"] = form
    await machine.success("40 of 40 records predicted", INFERRUN_BATCH_ROWS="7")
    sums = [expected(index)["total"] for index in range(40)]
    found = [
        {"sum": [f"{one:f}:0:class 0", f"{one / 2:f}:1:class 1"], "label": expected(index)["label"]}
        for index, one in enumerate(sums)
    ]
    if form == "jsonl":
        assert [one["prediction"] for one in machine.results] == found
        return
    table = parquet.read_table(machine.output / "out" / "inf-two" / "predictions")
    assert table["prediction"].to_pylist() == found
    assert table["prediction"].type.field("sum").type == pyarrow.list_(pyarrow.string(), 2)


async def test_predictions_are_columns_of_the_types_of_the_metadata(
    tmp_path: Path, two: TensorServer
) -> None:
    table = {**TABLE, "city": [None, *TABLE["city"][1:]]}
    machine = machine_of(tmp_path / "run", two, "parquet", table, tensors=TENSORS)
    machine.contract["output"]["file"]["format"] = "parquet"
    await machine.success(
        "39 of 40 records predicted; 1 failed, with their errors in the output",
        INFERRUN_CHUNK_BYTES="300",
        INFERRUN_BATCH_ROWS="7",
    )
    found = parquet.read_table(machine.output / "out" / machine.contract["jobName"] / "predictions")
    assert found.schema.field("prediction").type == pyarrow.struct(
        {"label": pyarrow.string(), "total": pyarrow.float64()}
    )
    assert found["prediction"].to_pylist() == [None, *map(expected, range(1, 40))]


@pytest.mark.parametrize("name", FORMATS)
async def test_the_whole_input_can_be_copied(
    tmp_path: Path, plain: TensorServer, name: str
) -> None:
    machine = machine_of(tmp_path / "run", plain, name, tensors=TENSORS, joinSource="Input")
    await machine.success()
    first, *_ = machine.results
    assert list(first) == ["index", "custom_id", "region", "first", "city", "second", "prediction"]
    assert (first["region"], first["city"]) == ("north", "Rome")


@pytest.mark.parametrize("name", ["csv", "parquet", "arrow"])
async def test_columns_that_are_copied_do_not_feed_the_model(
    tmp_path: Path, machine: Machine, name: str
) -> None:
    # Any: values of a column
    table: dict[str, list[Any]] = {"a": [1.5, 2.5], "note": ["x", "y"], "b": [1, 2]}
    machine.contract |= {
        "input": {"file": {"claimName": "given", "path": f"rows.{name}", "format": name}},
        "output": {"file": {"claimName": "made", "path": "out"}},
        "passThroughColumns": ["note"],
    }
    (machine.input / f"rows.{name}").write_bytes(content_of(table, name=name))
    await machine.success("2 of 2 records predicted")
    assert [(one["note"], one["prediction"]) for one in machine.results] == [("x", 2.5), ("y", 4.5)]


async def test_a_record_with_a_wrong_value_costs_that_record(
    tmp_path: Path, two: TensorServer
) -> None:
    table = {
        **TABLE,
        "first": ["0.5", "n/a", *map(str, range(2, 40))],
        "city": [*TABLE["city"][:39], None],
    }
    machine = machine_of(
        tmp_path / "run", two, "jsonl", table, tensors=TENSORS, passThroughColumns=["region"]
    )
    await machine.success("38 of 40 records predicted; 2 failed, with their errors in the output")
    found = machine.results
    assert found[0]["prediction"] == {"label": "Rome!", "total": 0.5}
    assert found[1] == {
        "index": 1,
        "custom_id": "c1",
        "region": 'so"uth',
        "error": {
            "code": "invalid_input",
            "message": "column 'first' has a string, which datatype FP64 cannot represent (tensor 'pair')",
            "attempts": 0,
        },
    }
    assert found[39]["error"]["message"].startswith("column 'city' has null, which datatype BYTES")


PAIR, CITY = {"name": "pair", "columns": ["first", "second"]}, {"name": "city", "columns": ["city"]}
MISTAKES: dict[str, tuple[dict[str, Any], int, str]] = {  # Any: JSON
    "an unknown column that feeds a tensor": (
        {"tensors": {"inputs": [{**PAIR, "columns": ["first", "secnd"]}, CITY]}},
        3,
        "tensors.inputs: rows.csv has no column 'secnd', did you mean 'second'?; it has custom_id, region, first, city, second",
    ),
    "an unknown column that is copied": (
        {"tensors": TENSORS, "passThroughColumns": ["country"]},
        3,
        "passThroughColumns: rows.csv has no column 'country'; it has custom_id, region, first, city, second",
    ),
    "an input without a name": (
        {"tensors": {"inputs": [{"columns": ["first", "second"]}]}},
        2,
        "tensors.inputs.0.name: required, because the model has the inputs 'pair', 'city'",
    ),
    "an input that is named twice": (
        {"tensors": {"inputs": [PAIR, PAIR]}},
        2,
        "tensors.inputs.1.name: 'pair' is named twice",
    ),
    "two outputs of one name": (
        {
            "tensors": {
                **TENSORS,
                "outputs": [
                    {"name": "sum", "resultName": "x"},
                    {"name": "label", "resultName": "x"},
                ],
            }
        },
        2,
        "tensors.outputs.1.resultName: 'x' is the name of another output",
    ),
    "a column of texts for a tensor of numbers": (
        {"tensors": {"inputs": [{**PAIR, "columns": ["first", "region"]}, CITY]}},
        4,
        "column 'region' has a string, which datatype FP64 cannot represent (tensor 'pair'); correct tensors.inputs",
    ),
    "a column with the name of an output": (
        {"tensors": TENSORS, "passThroughColumns": ["prediction"]},
        2,
        "passThroughColumns: a column 'prediction' would replace the member 'prediction' of the results",
    ),
    "both ways to copy": (
        {"tensors": TENSORS, "joinSource": "Input", "passThroughColumns": ["region"]},
        2,
        "joinSource: Input copies all columns; remove passThroughColumns",
    ),
    "a protocol without tensors": (
        {"tensors": TENSORS, "protocolVersion": "openai"},
        2,
        "tensors: only the protocols v1, v2 and grpc-v2 have named tensors",
    ),
}


@pytest.mark.parametrize("is_dry", [False, True], ids=["run", "dry-run"])
@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_found_before_the_first_request(
    tmp_path: Path, plain: TensorServer, mistake: str, *, is_dry: bool
) -> None:
    members, code, message = MISTAKES[mistake]
    machine = machine_of(tmp_path / "run", plain, "csv", **{**members, "dryRun": is_dry})
    machine.contract["kserve"]["protocolVersion"] = machine.contract.pop("protocolVersion", "v2")
    ended = await machine.pod()
    assert message in ended.message
    assert (ended.code, code == 2 or not ended.result.retryable) == (code, True)
    assert plain.requests == []


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            {"inputs": [{**PAIR, "name": "pairs"}, CITY]},
            "tensors.inputs.0.name: the model has no input 'pairs'; it has 'pair', 'city'",
        ),
        (
            {**TENSORS, "outputs": [{"name": "probability"}]},
            "tensors.outputs.0.name: the model has no output 'probability'; it has 'sum', 'label'",
        ),
    ],
)
async def test_a_name_that_the_metadata_lacks_ends_a_dry_run(
    tmp_path: Path, plain: TensorServer, tensors: dict[str, Any], message: str
) -> None:
    machine = machine_of(tmp_path / "run", plain, "csv", tensors=tensors, dryRun=True)
    await machine.final_failure(4, message)


async def test_a_record_without_a_column_is_named_without_its_members(
    tmp_path: Path, plain: TensorServer
) -> None:
    machine = machine_of(tmp_path / "run", plain, "jsonl", tensors=TENSORS)
    (machine.input / "rows.jsonl").write_text('{"second": 1, "c4nary": 2, "city": "Rome"}\n')
    ended = await machine.pod()
    text = "rows.jsonl line 1 has no 'first', which tensors.inputs names; a missing value must be null, or set missingColumns"
    assert ended.message == f'{text}: "Null"'


async def test_a_table_without_a_header_is_not_shown(tmp_path: Path, plain: TensorServer) -> None:
    machine = machine_of(tmp_path / "run", plain, "csv", tensors=TENSORS)
    (machine.input / "rows.csv").write_text("c4nary,2,Rome\nc4nary,4,Oslo\n")
    ended = await machine.pod()
    assert (
        "rows.csv has no column 'second', and none of the others that the config names"
        in ended.message
    )
    assert "c4nary" not in ended.message


async def test_a_valid_mapping_passes_the_dry_run(tmp_path: Path, plain: TensorServer) -> None:
    await machine_of(
        tmp_path / "run", plain, "parquet", tensors=TENSORS, joinSource="Input", dryRun=True
    ).success()
    assert plain.requests == []


async def test_a_data_handler_stores_no_columns(krateo: Machine, machine: Machine) -> None:
    krateo.contract["input"] = {"file": {"claimName": "given", "path": "rows.csv", "format": "csv"}}
    krateo.contract["passThroughColumns"] = ["note"]
    (krateo.input / "rows.csv").write_text("a,note\n1,x\n")
    await krateo.failure(
        2, "output.krateo: it does not store columns of the input; use file, s3, gcs"
    )


async def test_the_documented_config_works(tmp_path: Path, plain: TensorServer) -> None:
    text = (REPOSITORY / "docs" / "how-to" / "columns.md").read_text()
    manifest, rows, results = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[:3]
    example = yaml.safe_load(manifest)
    spec = valid_spec(example)
    machine = machine_of(tmp_path / "run", plain, "csv", tensors=spec["tensors"])
    machine.contract |= {**spec["storage"], "passThroughColumns": spec["passThroughColumns"]}
    machine.contract["output"]["file"]["path"] = "out"
    (machine.input / "customers.csv").write_text(rows)
    await machine.success()
    assert machine.results == [json.loads(line) for line in results.splitlines()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MlServer]:
    async with ml_server(tmp_path_factory.mktemp("mlserver")) as server:
        yield server


CUSTOMERS: dict[str, list[Any]] = {  # Any: values of a column
    "city": ["Rome", "Oslo"] * 20,
    "age": [21 + index for index in range(40)],
    "name": [f"customer {index}" for index in range(40)],
}


async def run_customers(
    folder: Path, server: MlServer, protocol: str, name: str
) -> tuple[Ended, list[dict[str, Any]]]:
    kserve = {
        "modelName": "customers",
        "modelUrl": server.grpc if protocol == "grpc-v2" else server.rest,
    }
    tensors = {
        "inputs": [{"name": "age", "columns": ["age"]}, {"name": "city", "columns": ["city"]}],
        "outputs": [
            {"name": "predict", "resultName": "kind"},
            {"name": "predict_proba", "resultName": "probabilities"},
        ],
    }
    machine = machine_of(
        folder, TensorServer(), name, CUSTOMERS, tensors=tensors, passThroughColumns=["name"]
    )
    machine.contract["kserve"] = {**kserve, "protocolVersion": protocol}
    ended = await machine.pod(INFERRUN_RETRY_SECONDS="30")
    return ended, machine.results if ended.code == 0 else []


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
@pytest.mark.parametrize("name", FORMATS)
async def test_a_model_of_numbers_and_texts_on_a_real_server(
    tmp_path: Path, server: MlServer, protocol: str, name: str
) -> None:
    ended, found = await run_customers(tmp_path / "run", server, protocol, name)
    assert (ended.code, ended.message) == (0, "40 of 40 records predicted")
    kinds = {
        (True, True): "young Roman",
        (False, True): "old Roman",
        (True, False): "young Norwegian",
        (False, False): "old Norwegian",
    }
    for index, one in enumerate(found):
        assert one["name"] == f"customer {index}"
        assert one["prediction"]["kind"] == kinds[21 + index <= 45, index % 2 == 0]
        assert sorted(one["prediction"]["probabilities"]) == [0.0, 0.0, 0.0, 1.0]
