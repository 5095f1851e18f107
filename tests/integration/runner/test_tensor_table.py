"""Datatypes, shapes and formats, from file to file, with servers of others, which decode what they
get by themselves: KServe's SDK for Python, and MLServer. `tensor_cells` says which cells there
are."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
import pytest_asyncio

from inferrun.contract import InputTensor, OutputTensor, Tensors
from inferrun.formats.record_texts import prediction_texts
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
from inferrun_runner import registry
from tests.integration.runner.echo_servers import (
    DATATYPES,
    DIMENSIONS,
    EchoServer,
    echoing_ml_server,
    kserve_server,
)
from tests.integration.runner.tensor_cells import (
    FORMS,
    PAGE,
    SERVERS,
    file_of,
    page_with,
    predictions_in,
    ranks_of,
    records_in,
    sent_values,
    stored,
    table_text,
)
from tests.unit.runner.batches import ARROW_TYPES, decoded

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
        """Send one request, as a Pod does; `columns` feed the model. With `is_typed`, predictions
        have the type that is known."""
        inputs = (InputTensor(columns=columns, **given),) if columns else ()
        return await self.ask(
            model, records, Tensors(inputs=inputs, outputs=outputs), is_typed=is_typed
        )

    async def ask(
        self, model: str, records: Records, tensors: Tensors, *, is_typed: bool = False
    ) -> Results:
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
                able = found.abilities
                assert able.predicted is not None
                assert able.use_type is not None
                kind = able.predicted()
                assert kind is not None
                able.use_type(kind)
            return await found.predict(Batch(first=0, records=records))


FOR_EACH_CHANGE = ("kserve-json", "kserve-binary", "kserve-grpc")
"""One server per encoding of V2. The others are asked with all tests only, because starting them
takes long."""


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        one if one in FOR_EACH_CHANGE else pytest.param(one, marks=pytest.mark.thorough)
        for one in SERVERS
    ],
)
async def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Judge]:
    name, _, wire = request.param.partition("-")
    protocol = {"grpc": "grpc-v2", "v1": "v1"}.get(wire, "v2")
    if name == "mlserver":
        async with echoing_ml_server(tmp_path_factory.mktemp("echo")) as server:
            yield Judge(server, protocol)
    else:
        async with kserve_server(is_binary=wire == "binary") as server:
            yield Judge(server, protocol)


@pytest.fixture
def v2(judge: Judge) -> Judge:
    if judge.protocol == "v1":
        pytest.skip("V1 of KServe's SDK has no metadata")
    return judge


def found_in(results: Results) -> list[Any]:  # Any: JSON
    return decoded(results)


def json_records(values: list[Any]) -> JsonRecords:  # Any: JSON
    return JsonRecords([orjson.dumps(value) for value in values])


@pytest.mark.parametrize(
    ("form", "datatype"), [(form, kind) for form in FORMS for kind in DATATYPES]
)
async def test_values_of_a_file_reach_the_model_and_the_file_of_results(
    judge: Judge, form: str, datatype: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["judge"]
    await check_cells(judge, name, form, datatype)


async def check_cells(judge: Judge, name: str, form: str, datatype: str) -> None:
    """Send the values of a datatype in each rank that is tested, and compare what comes back, and
    what the server has seen."""
    for rank in ranks_of(name, form, datatype):
        dimensions, values = DIMENSIONS[rank], sent_values(form, datatype, rank)
        content, columns = file_of(form, values, datatype, rank)
        block = records_in(form, content, columns)
        assert not block.errors
        shape = (-1, *dimensions) if rank else ()
        outputs = (
            OutputTensor(name="echo", datatype=datatype, shape=shape),
            *((_SEEN,) if rank else ()),
        )
        is_v1 = judge.protocol == "v1"  # of KServe's SDK, it has no metadata
        given = InputTensor(
            name="given",
            columns=columns,
            datatype=datatype if is_v1 else "",
            shape=shape if is_v1 or not rank else None,
        )
        tensors = Tensors(inputs=(given,), outputs=outputs)
        results = await judge.ask(
            f"{datatype}-{rank}", block.records, tensors, is_typed=FORMS[form].is_table
        )
        assert not results.errors
        kind = ARROW_TYPES.get(datatype, pyarrow.string())
        for size in reversed(dimensions):
            kind = pyarrow.list_(kind, size)
        if isinstance(results.values, ArrowRecords):
            assert results.values.table.column(0).type.field("echo").type == kind
        members = {"echo": kind, "seen": pyarrow.string()} if rank else {"echo": kind}
        found = predictions_in(
            form,
            stored(form, Batch(first=0, records=block.records), results, pyarrow.struct(members)),
        )
        assert [one["echo"] for one in found] == values
        if rank:
            assert {one["seen"] for one in found} == {
                "dict" if is_v1 else f"{datatype}{list(dimensions)}"
            }


_SEEN = OutputTensor(name="seen", datatype="BYTES", shape=(-1,))


def test_the_page_shows_the_cells() -> None:
    page = PAGE.read_text()
    assert page == page_with(page, table_text()), (
        "run: python -m tests.integration.runner.tensor_cells"
    )


@pytest.mark.parametrize("is_typed", [False, True], ids=["json", "typed"])
async def test_several_inputs_and_outputs_of_different_datatypes_are_not_mixed_up(
    v2: Judge, *, is_typed: bool
) -> None:
    rows = [{"a": (1 << 53) + at, "b": -at, "t": f"ü{at}"} for at in range(4)]
    tensors = Tensors.model_validate(
        {
            "inputs": [
                {"name": "text", "columns": ["t"]},
                {"name": "number", "columns": ["a", "b"]},
            ],
            "outputs": [
                {"name": "TEXT", "resultName": "t", "datatype": "BYTES", "shape": [-1]},
                {"name": "NUMBER", "resultName": "n", "datatype": "INT64", "shape": [-1, 2]},
            ],
        }
    )
    expected = [{"t": row["t"], "n": [row["a"], row["b"]]} for row in rows]
    for records in (json_records(rows), ArrowRecords(pyarrow.RecordBatch.from_pylist(rows))):
        results = await v2.ask("several", records, tensors, is_typed=is_typed)
        assert not results.errors
        assert isinstance(results.values, ArrowRecords) == is_typed
        assert [orjson.loads(text) for text in prediction_texts(results.values)] == expected


async def test_the_response_says_which_types_predictions_have_if_nothing_else_does(
    v2: Judge,
) -> None:
    context = Tensors(outputs=OUTPUTS[:1])
    records = json_records([[1, 2, 3], [4, 5, 6]])
    url = v2.server.grpc if v2.protocol == "grpc-v2" else v2.server.rest
    opened = registry.Registry().model_protocol(v2.protocol, field="")
    limits = Limits.model_validate({"allowed_addresses": "127.0.0.1", "retry_seconds": 0})
    contract = Contract(job_id="", job_name="", tensors=context)
    given = ModelContext(limits=limits, credentials_dir=Path("/nonexistent"), contract=contract)
    async with opened(Model(model_name="UINT8-2", model_url=url), given) as found:
        await found.prepare()
        assert found.abilities.predicted is not None
        assert found.abilities.predicted() is None
        results = await found.predict(Batch(first=0, records=records))
    assert isinstance(results.values, ArrowRecords)
    assert results.values.table.column(0).type == pyarrow.struct(
        {"echo": pyarrow.list_(pyarrow.uint8())}
    )


async def test_a_flat_list_gets_the_dimensions_of_the_metadata(v2: Judge) -> None:
    flat = [[float(at) for at in range(12)] for _ in range(3)]
    expected = [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]], [[8.0, 9.0], [10.0, 11.0]]]
    for records, columns in (
        (json_records(flat), ()),
        (json_records([{"x": row} for row in flat]), ("x",)),
        (ArrowRecords(pyarrow.record_batch({"x": flat})), ("x",)),
    ):
        results = await v2.predict("FP32-4", records, columns)
        assert found_in(results) == [{"echo": expected, "seen": "FP32[3, 2, 2]"}] * 3


async def test_rows_of_numbers_get_a_last_dimension_of_one_if_the_model_has_it(v2: Judge) -> None:
    results = await v2.predict("FP32-trailing", json_records([[1, 2, 3, 4.5]]))
    assert found_in(results) == [{"echo": [1.0, 2.0, 3.0, 4.5], "seen": "FP32[4, 1]"}]


async def test_a_variable_dimension_has_the_size_of_the_records(v2: Judge) -> None:
    for record in ([1, 2, 3, 4, 5, 6], [[1, 2], [3, 4], [5, 6]]):
        results = await v2.predict("INT64-variable", json_records([record]))
        assert found_in(results) == [{"echo": [[1, 2], [3, 4], [5, 6]], "seen": "INT64[3, 2]"}]


async def test_a_value_that_does_not_fit_is_an_error_of_its_record(v2: Judge) -> None:
    given = [[1, 2, 3], [1, 2, 128], [1, 2.5, 3], [1, None, 3], [4, 5.0, 6]]
    results = await v2.predict("INT8-2", json_records(given))
    assert sorted(results.errors) == [1, 2, 3]
    assert {error.code for error in results.errors.values()} == {"invalid_input"}
    assert [found_in(results)[at]["echo"] for at in (0, 4)] == [[1, 2, 3], [4, 5, 6]]
    exact = await v2.predict(
        "FP32-2", json_records([[16_777_217, 0, 0], [16_777_216, 0, 0], [1e300, 0, 0]])
    )
    assert sorted(exact.errors) == [0, 2]
    assert "cannot represent exactly" in exact.errors[0].message


async def test_a_wrong_number_of_values_is_an_error_of_its_record(v2: Judge) -> None:
    results = await v2.predict("FP32-3", json_records([{"x": [0.5] * 6}, {"x": [0.5] * 5}]), ("x",))
    assert found_in(results)[0]["seen"] == "FP32[2, 3]"
    assert results.errors[1].message == (
        "column 'x' has 5 values, the model's metadata requires 6 for the tensor 'given' (dimensions [2, 3])"
    )
    turned = await v2.predict(
        "FP32-3", json_records([[[0, 0, 0], [0, 0, 0]], [[0, 0], [0, 0], [0, 0]]])
    )
    assert turned.errors[1].message == (
        "the record has dimensions [3, 2], the model's metadata requires [2, 3] for the tensor 'given'"
    )


async def test_bytes_that_are_no_text_are_exact(v2: Judge, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["judge"]
    if name.startswith("mlserver"):
        pytest.skip("the echo of MLServer decodes texts")
    raw, b64 = b"\xff\x00 raw \x80", {"b64": "/wAgcmF3IIA="}
    given = json_records([{"x": "text"}, {"x": b64}])
    column = ArrowRecords(
        pyarrow.record_batch({"x": pyarrow.array([b"text", raw], pyarrow.binary())})
    )
    for records in (given, column):
        if name == "kserve-binary":
            continue  # it decodes texts before the model gets them
        results = await v2.predict("BYTES-1", records, ("x",))
        assert found_in(results)[0] == {"echo": "text", "seen": "BYTES[]"}
        if name == "kserve-json":
            assert "JSON" in results.errors[1].message
        else:
            assert found_in(results)[1] == {"echo": b64, "seen": "BYTES[]"}
    if name != "kserve-json":
        made = await v2.predict("RAW", json_records([66, 255]))
        assert [one["echo"] for one in found_in(made)] == ["BA", {"b64": "/0E="}]
