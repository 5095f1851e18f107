"""Datatypes, shapes and formats, in both directions, with servers of others, which decode what they get by themselves: KServe's SDK
for Python, and MLServer."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import orjson
import pyarrow
import pytest
import pytest_asyncio

from inferrun.contract import InputTensor, OutputTensor, Tensors
from inferrun.formats.json_text import prediction_texts
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Contract,
    DescribedModel,
    JsonRecords,
    Limits,
    Model,
    ModelContext,
    Records,
    Results,
)
from runner import registry
from runner.protocols.tensors.datatypes import KINDS
from tests.integration.runner.echo_servers import (
    DATATYPES,
    DIMENSIONS,
    EchoServer,
    echoing_ml_server,
    kserve_server,
    values_of,
)
from tests.unit.runner.batches import ARROW_TYPES, decoded

JUDGES = ("kserve-json", "kserve-binary", "kserve-grpc", "mlserver-json", "mlserver-grpc")
OUTPUTS = (OutputTensor(name="echo"), OutputTensor(name="seen"))


@dataclass(frozen=True, slots=True)
class Judge:
    """A server, and the protocol it is asked with."""

    server: EchoServer
    protocol: str

    async def predict(
        self,
        model: str,
        records: Records,
        columns: tuple[str, ...] = (),
        *,
        outputs: tuple[OutputTensor, ...] = OUTPUTS,
        is_typed: bool = False,
        **given: Any,  # Any: fields of the input
    ) -> Results:
        """Send one request, as a Pod does; `columns` feed the model. With `is_typed`, predictions have the type that is known."""
        inputs = (InputTensor(columns=columns, **given),) if columns else ()
        return await self.ask(model, records, Tensors(inputs=inputs, outputs=outputs), is_typed=is_typed)

    async def ask(self, model: str, records: Records, tensors: Tensors, *, is_typed: bool = False) -> Results:
        """Send one request with these tensors."""
        url = self.server.grpc if self.protocol == "grpc-v2" else self.server.rest
        context = ModelContext(
            limits=Limits.model_validate({"allowed_addresses": "127.0.0.1", "retry_seconds": 0}),
            credentials_dir=Path("/nonexistent"),
            contract=Contract(job_id="", job_name="", tensors=tensors),
        )
        opened = registry.Registry().model_protocol(self.protocol, field="kserve.protocolVersion")
        async with opened(Model(model_name=model, model_url=url), context) as found:
            await found.prepare()
            if is_typed:
                assert isinstance(found, DescribedModel)
                kind = found.predicted()
                assert kind is not None
                found.use_type(kind)
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


def ranks() -> list[tuple[int, tuple[int, ...]]]:
    """The ranks of tensors with a dimension for records."""
    return [(rank, dimensions) for rank, dimensions in DIMENSIONS.items() if rank]


@pytest.mark.parametrize("datatype", DATATYPES)
async def test_the_model_gets_its_datatype_and_shape(
    judge: Judge, datatype: str, request: pytest.FixtureRequest
) -> None:
    skip_what_the_server_cannot_take(judge, datatype, request)
    for rank, dimensions in ranks():
        values = values_of(datatype, rank, records=5)
        results = await judge.predict(f"{datatype}-{rank}", json_records(values))
        assert not results.errors
        seen = f"{datatype}{list(dimensions)}"
        assert found_in(results) == [{"echo": value, "seen": seen} for value in values]


FORMATS = ("list", "large-list", "fixed-size-list", "tensor")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("datatype", DATATYPES)
async def test_a_typed_column_becomes_the_tensor_and_the_output_a_typed_column(
    judge: Judge, datatype: str, form: str, request: pytest.FixtureRequest
) -> None:
    skip_what_the_server_cannot_take(judge, datatype, request)
    for rank, dimensions in ranks():
        values = values_of(datatype, rank, records=5)
        column = _column_of(values, datatype, dimensions, form)
        shape = (-1, *dimensions)
        outputs = (OutputTensor(name="echo", datatype=datatype, shape=shape), _SEEN)
        table = ArrowRecords(pyarrow.record_batch({"x": column}))
        results = await judge.predict(f"{datatype}-{rank}", table, ("x",), outputs=outputs, is_typed=True)
        assert not results.errors
        assert isinstance(results.values, ArrowRecords)
        echo, seen = results.values.table.column(0).flatten()
        kind = ARROW_TYPES.get(datatype, pyarrow.string())
        for size in reversed(dimensions):
            kind = pyarrow.list_(kind, size)
        assert echo.type == kind
        assert echo.to_pylist() == values
        assert set(seen.to_pylist()) == {f"{datatype}{list(dimensions)}"}


_SEEN = OutputTensor(name="seen", datatype="BYTES", shape=(-1,))


@pytest.mark.parametrize("datatype", DATATYPES)
async def test_a_model_without_a_dimension_for_records_gets_one_value(
    judge: Judge, datatype: str, request: pytest.FixtureRequest
) -> None:
    skip_what_the_server_cannot_take(judge, datatype, request)
    if datatype == "BYTES" and request.node.callspec.params["judge"].startswith("mlserver"):
        pytest.skip("MLServer's codec of texts has no tensors of rank 0")
    (value,) = values_of(datatype, 0, records=1)
    records = ArrowRecords(pyarrow.record_batch({"x": pyarrow.array([value], _arrow_type(datatype, 0))}))
    echo = OutputTensor(name="echo", datatype=datatype, shape=())
    results = await judge.predict(f"{datatype}-0", records, ("x",), outputs=(echo,), is_typed=True, shape=())
    assert not results.errors
    assert isinstance(results.values, ArrowRecords)
    (found,) = results.values.table.column(0).to_pylist()
    assert found == {"echo": value}


@pytest.mark.parametrize("is_typed", [False, True], ids=["json", "typed"])
async def test_several_inputs_and_outputs_of_different_datatypes_are_not_mixed_up(
    judge: Judge, *, is_typed: bool
) -> None:
    rows = [{"a": (1 << 53) + at, "b": -at, "t": f"ü{at}"} for at in range(4)]
    tensors = Tensors.model_validate(
        {
            "inputs": [{"name": "text", "columns": ["t"]}, {"name": "number", "columns": ["a", "b"]}],
            "outputs": [
                {"name": "TEXT", "resultName": "t", "datatype": "BYTES", "shape": [-1]},
                {"name": "NUMBER", "resultName": "n", "datatype": "INT64", "shape": [-1, 2]},
            ],
        }
    )
    expected = [{"t": row["t"], "n": [row["a"], row["b"]]} for row in rows]
    for records in (json_records(rows), ArrowRecords(pyarrow.RecordBatch.from_pylist(rows))):
        results = await judge.ask("several", records, tensors, is_typed=is_typed)
        assert not results.errors
        assert isinstance(results.values, ArrowRecords) == is_typed
        assert [orjson.loads(text) for text in prediction_texts(results.values)] == expected


async def test_the_response_says_which_types_predictions_have_if_nothing_else_does(judge: Judge) -> None:
    context = Tensors(outputs=OUTPUTS[:1])
    records = json_records([[1, 2, 3], [4, 5, 6]])
    url = judge.server.grpc if judge.protocol == "grpc-v2" else judge.server.rest
    opened = registry.Registry().model_protocol(judge.protocol, field="")
    limits = Limits.model_validate({"allowed_addresses": "127.0.0.1", "retry_seconds": 0})
    contract = Contract(job_id="", job_name="", tensors=context)
    given = ModelContext(limits=limits, credentials_dir=Path("/nonexistent"), contract=contract)
    async with opened(Model(model_name="UINT8-2", model_url=url), given) as found:
        await found.prepare()
        assert isinstance(found, DescribedModel)
        assert found.predicted() is None
        results = await found.predict(Batch(first=0, records=records))
    assert isinstance(results.values, ArrowRecords)
    assert results.values.table.column(0).type == pyarrow.struct({"echo": pyarrow.list_(pyarrow.uint8())})


def _column_of(values: list[Any], datatype: str, dimensions: tuple[int, ...], form: str) -> pyarrow.Array:  # Any: JSON
    """A column of records, with lists of a kind."""
    if form == "tensor":
        if datatype in {"BYTES", "BOOL"} or not dimensions:
            return pyarrow.array(values, _arrow_type(datatype, len(dimensions)))  # Arrow's tensors have numbers
        flat = pyarrow.array(numpy.array(values, KINDS[datatype]).ravel())
        storage = pyarrow.FixedSizeListArray.from_arrays(flat, math.prod(dimensions))
        kind = pyarrow.fixed_shape_tensor(flat.type, dimensions)
        return pyarrow.ExtensionArray.from_storage(kind, storage)
    kind = _arrow_type(datatype, 0)
    for size in reversed(dimensions):
        if form == "fixed-size-list":
            kind = pyarrow.list_(kind, size)
        else:
            kind = pyarrow.large_list(kind) if form == "large-list" else pyarrow.list_(kind)
    return pyarrow.array(values, kind)


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


async def test_v1_instances_arrive_as_they_are(judge: Judge, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["judge"] != "kserve-json":
        pytest.skip("V1 is one of the protocols of KServe's SDK over REST")
    v1 = Judge(judge.server, "v1")
    for datatype in DATATYPES:
        for rank, dimensions in ranks():
            values = values_of(datatype, rank, records=5)
            column = pyarrow.array(values, _arrow_type(datatype, len(dimensions)))
            records = (json_records([{"x": one} for one in values]), ArrowRecords(pyarrow.record_batch({"x": column})))
            for one in records:
                tensors = Tensors.model_validate({"inputs": [{"name": "given", "columns": ["x"]}]})
                results = await v1.ask(f"{datatype}-{rank}", one, tensors)
                assert not results.errors
                assert found_in(results) == [{"echo": {"given": value}, "seen": "dict"} for value in values]
