"""Datatypes and shapes with servers of others, which decode what they get by themselves: KServe's Python SDK, and MLServer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
import pytest_asyncio

from inferrun.contract import InputTensor, OutputTensor, Tensors
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Contract,
    JsonRecords,
    Limits,
    Model,
    ModelContext,
    Records,
    Results,
)
from runner import registry
from tests.integration.runner.echo_servers import (
    DATATYPES,
    DIMENSIONS,
    EchoServer,
    echoing_ml_server,
    kserve_server,
    values_of,
)
from tests.unit.runner.batches import decoded

JUDGES = ("kserve-json", "kserve-binary", "kserve-grpc", "mlserver-json", "mlserver-grpc")
OUTPUTS = (OutputTensor(name="echo"), OutputTensor(name="seen"))


@dataclass(frozen=True, slots=True)
class Judge:
    """A server, and the protocol it is asked with."""

    server: EchoServer
    protocol: str

    async def predict(self, model: str, records: Records, columns: tuple[str, ...] = ()) -> Results:
        """Send one request, as a Pod does; `columns` feed the model."""
        url = self.server.grpc if self.protocol == "grpc-v2" else self.server.rest
        inputs = (InputTensor(columns=columns),) if columns else ()
        context = ModelContext(
            limits=Limits.model_validate({"allowed_addresses": "127.0.0.1", "retry_seconds": 0}),
            credentials_dir=Path("/nonexistent"),
            contract=Contract(job_id="", job_name="", tensors=Tensors(inputs=inputs, outputs=OUTPUTS)),
        )
        opened = registry.Registry().model_protocol(self.protocol, field="kserve.protocolVersion")
        async with opened(Model(model_name=model, model_url=url), context) as found:
            await found.prepare()
            return await found.predict(Batch(first=0, records=records))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=JUDGES)
async def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    name, _, wire = request.param.partition("-")
    protocol = "grpc-v2" if wire == "grpc" else "v2"
    if name == "mlserver":
        async with echoing_ml_server(tmp_path_factory.mktemp("echo")) as server:
            yield Judge(server, protocol)
    else:
        async with kserve_server(is_binary=wire == "binary") as server:
            yield Judge(server, protocol)


def found_in(results: Results) -> list[Any]:  # Any: JSON
    return decoded(results)


def json_records(values: list[Any]) -> JsonRecords:  # Any: JSON
    return JsonRecords([orjson.dumps(value) for value in values])


def skip_what_the_server_cannot_take(judge: Judge, datatype: str, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["judge"]
    if datatype == "FP16" and name == "kserve-json":
        pytest.skip(f"{name} does not take FP16")


@pytest.mark.parametrize("datatype", DATATYPES)
async def test_the_model_gets_its_datatype_and_shape(
    judge: Judge, datatype: str, request: pytest.FixtureRequest
) -> None:
    skip_what_the_server_cannot_take(judge, datatype, request)
    for rank, dimensions in DIMENSIONS.items():
        values = values_of(datatype, rank, records=5)
        results = await judge.predict(f"{datatype}-{rank}", json_records(values))
        assert not results.errors
        seen = f"{datatype}{list(dimensions)}"
        assert found_in(results) == [{"echo": value, "seen": seen} for value in values]


@pytest.mark.parametrize("datatype", DATATYPES)
async def test_a_typed_column_becomes_the_tensor(judge: Judge, datatype: str, request: pytest.FixtureRequest) -> None:
    skip_what_the_server_cannot_take(judge, datatype, request)
    for rank, dimensions in DIMENSIONS.items():
        values = values_of(datatype, rank, records=5)
        column = pyarrow.array(values, _arrow_type(datatype, len(dimensions)))
        results = await judge.predict(f"{datatype}-{rank}", ArrowRecords(pyarrow.record_batch({"x": column})), ("x",))
        assert not results.errors
        assert [one["echo"] for one in found_in(results)] == values
        assert {one["seen"] for one in found_in(results)} == {f"{datatype}{list(dimensions)}"}


def _arrow_type(datatype: str, depth: int) -> pyarrow.DataType:
    kinds = {"BOOL": "bool", "BYTES": "string", "FP16": "float", "FP32": "float", "FP64": "double"}
    kind = pyarrow.type_for_alias(kinds.get(datatype, datatype.lower()))
    for _ in range(depth):
        kind = pyarrow.list_(kind)
    return kind


async def test_a_flat_list_gets_the_dimensions_of_the_metadata(judge: Judge) -> None:
    flat = [[float(at) for at in range(12)] for _ in range(3)]
    expected = [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]], [[8.0, 9.0], [10.0, 11.0]]]
    for records, columns in (
        (json_records(flat), ()),
        (json_records([{"x": row} for row in flat]), ("x",)),
        (ArrowRecords(pyarrow.record_batch({"x": flat})), ("x",)),
    ):
        results = await judge.predict("FP32-4", records, columns)
        assert found_in(results) == [{"echo": expected, "seen": "FP32[3, 2, 2]"}] * 3


async def test_rows_of_numbers_get_a_last_dimension_of_one_if_the_model_has_it(judge: Judge) -> None:
    results = await judge.predict("FP32-trailing", json_records([[1, 2, 3, 4.5]]))
    assert found_in(results) == [{"echo": [1.0, 2.0, 3.0, 4.5], "seen": "FP32[4, 1]"}]


async def test_a_variable_dimension_has_the_size_of_the_records(judge: Judge) -> None:
    for record in ([1, 2, 3, 4, 5, 6], [[1, 2], [3, 4], [5, 6]]):
        results = await judge.predict("INT64-variable", json_records([record]))
        assert found_in(results) == [{"echo": [[1, 2], [3, 4], [5, 6]], "seen": "INT64[3, 2]"}]


async def test_a_value_that_does_not_fit_is_an_error_of_its_record(judge: Judge) -> None:
    given = [[1, 2, 3], [1, 2, 128], [1, 2.5, 3], [1, None, 3], [4, 5.0, 6]]
    results = await judge.predict("INT8-2", json_records(given))
    assert sorted(results.errors) == [1, 2, 3]
    assert {error.code for error in results.errors.values()} == {"invalid_input"}
    assert [found_in(results)[at]["echo"] for at in (0, 4)] == [[1, 2, 3], [4, 5, 6]]
    exact = await judge.predict("FP32-2", json_records([[16_777_217, 0, 0], [16_777_216, 0, 0], [1e300, 0, 0]]))
    assert sorted(exact.errors) == [0, 2]
    assert "cannot represent exactly" in exact.errors[0].message


async def test_a_wrong_number_of_values_is_an_error_of_its_record(judge: Judge) -> None:
    results = await judge.predict("FP32-3", json_records([{"x": [0.5] * 6}, {"x": [0.5] * 5}]), ("x",))
    assert found_in(results)[0]["seen"] == "FP32[2, 3]"
    assert results.errors[1].message == (
        "column 'x' has 5 values, the model's metadata requires 6 for the tensor 'given' (dimensions [2, 3])"
    )
    turned = await judge.predict("FP32-3", json_records([[[0, 0, 0], [0, 0, 0]], [[0, 0], [0, 0], [0, 0]]]))
    assert turned.errors[1].message == (
        "the record has dimensions [3, 2], the model's metadata requires [2, 3] for the tensor 'given'"
    )


async def test_bytes_that_are_no_text_are_exact(judge: Judge, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["judge"]
    if name.startswith("mlserver"):
        pytest.skip("the echo of MLServer decodes texts")
    raw, b64 = b"\xff\x00 raw \x80", {"b64": "/wAgcmF3IIA="}
    given = json_records([{"x": "text"}, {"x": b64}])
    column = ArrowRecords(pyarrow.record_batch({"x": pyarrow.array([b"text", raw], pyarrow.binary())}))
    for records in (given, column):
        if name == "kserve-binary":
            continue  # it decodes texts before the model gets them
        results = await judge.predict("BYTES-1", records, ("x",))
        assert found_in(results)[0] == {"echo": "text", "seen": "BYTES[]"}
        if name == "kserve-json":
            assert "JSON" in results.errors[1].message
        else:
            assert found_in(results)[1] == {"echo": b64, "seen": "BYTES[]"}
    if name != "kserve-json":
        made = await judge.predict("RAW", json_records([66, 255]))
        assert [one["echo"] for one in found_in(made)] == ["BA", {"b64": "/0E="}]
