"""What TensorFlow Serving says about a model decides the datatype and shape of V1's instances, and
the type of predictions."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pyarrow
import pytest

from inferrun.plugins import (
    ArrowRecords,
    Batch,
    ContractError,
    InferenceError,
    Records,
    Results,
    Tensors,
)
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld
from tests.unit.runner.batches import decoded, records


def tensor(dtype: str, *shape: int) -> dict[str, Any]:  # Any: JSON
    dim = [{"size": str(size), "name": ""} for size in shape]
    return {"dtype": dtype, "tensor_shape": {"dim": dim, "unknown_rank": False}, "name": "x:0"}


def metadata(
    inputs: dict[str, Any], outputs: dict[str, Any], name: str = "serving_default"
) -> dict[str, Any]:
    """As TensorFlow Serving's REST API has it."""
    method = "tensorflow/serving/predict"
    signature = {"inputs": inputs, "outputs": outputs, "method_name": method}
    model = {"name": "sum", "signature_name": "", "version": "1"}
    return {
        "model_spec": model,
        "metadata": {"signature_def": {"signature_def": {name: signature}}},
    }


IMAGE = metadata({"image": tensor("DT_INT32", -1, 2, 2)}, {"y": tensor("DT_FLOAT", -1, 2)})
TWO = metadata(
    {"a": tensor("DT_INT64", -1), "t": tensor("DT_STRING", -1, 1)},
    {"p": tensor("DT_DOUBLE", -1), "q": tensor("DT_BOOL", -1)},
)


@pytest.fixture
async def world() -> AsyncIterator[ProtocolWorld]:
    async with PROTOCOLS["v1"]() as world:
        world.server.predict = lambda rows: [0.5] * len(rows)
        yield world


async def predict(
    world: ProtocolWorld, given: Records, **tensors: Any
) -> tuple[Results, "pyarrow.DataType | None"]:
    async with world.open(tensors=Tensors.model_validate(tensors)) as model:
        await model.prepare()
        able = model.abilities
        assert able.mismatch is not None
        assert able.mismatch(given) == ""
        assert able.predicted is not None
        return await model.predict(Batch(first=0, records=given)), able.predicted()


def sent(world: ProtocolWorld) -> Sequence[Any]:  # Any: JSON
    (body,) = world.server.bodies
    return body["instances"]  # type: ignore[no-any-return]  # JSON


IMAGES = pyarrow.record_batch(
    {"pixels": pyarrow.array([[1, 2, 3, 4], [5, 6, 7, 8], [9]], pyarrow.list_(pyarrow.int64()))}
)


@pytest.mark.parametrize(
    ("given", "tensors"),
    [
        (records([[1, 2, 3, 4], [5, 6, 7, 8], [9]]), {}),
        (records([["1", "2", "3", "4"], [5.0, 6, 7, 8], [1, 2, 3, 0.5]]), {}),
        (ArrowRecords(IMAGES), {"inputs": [{"columns": ["pixels"]}]}),
    ],
    ids=["flat", "texts", "column"],
)
async def test_instances_get_the_datatype_and_shape_of_the_metadata(
    world: ProtocolWorld, given: Records, tensors: dict[str, Any]
) -> None:
    world.server.metadata = IMAGE
    results, kind = await predict(world, given, **tensors)
    assert sent(world) == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert [error.code for error in results.errors.values()] == ["invalid_input"]
    assert kind == pyarrow.list_(pyarrow.float32(), 2)


async def test_objects_are_sent_as_they_are(world: ProtocolWorld) -> None:
    world.server.metadata = TWO
    results, kind = await predict(world, records([{"a": 1, "t": "x"}, {"a": 1.5, "t": ["y"]}]))
    assert sent(world) == [{"a": 1, "t": "x"}, {"a": 1.5, "t": ["y"]}]
    assert decoded(results) == [0.5, 0.5]
    assert kind is None  # which of the outputs a prediction has is not known


async def test_named_inputs_and_outputs_have_the_datatypes_of_the_metadata(
    world: ProtocolWorld,
) -> None:
    world.server.metadata = TWO
    world.server.predict = lambda rows: [{"p": 0.5, "q": True}] * len(rows)
    inputs = [{"name": "t", "columns": ["text"]}, {"name": "a", "columns": ["number"]}]
    given = records([{"number": "7", "text": 5}, {"number": "7.5", "text": "x"}])
    results, kind = await predict(world, given, inputs=inputs, outputs=[{"name": "q"}])
    assert sent(world) == [{"t": ["5"], "a": 7}]
    assert decoded(results)[0] == {"q": True}
    assert list(results.errors) == [1]
    assert kind == pyarrow.struct({"q": pyarrow.bool_()})


async def test_the_parameters_are_members_of_the_request_and_choose_the_signature(
    world: ProtocolWorld,
) -> None:
    world.server.metadata = metadata(
        {"x": tensor("DT_FLOAT", -1, 1)}, {"y": tensor("DT_INT8", -1)}, "other"
    )
    _, kind = await predict(world, records([1, 2]), parameters={"signature_name": "other", "k": 3})
    assert world.server.bodies == [{"signature_name": "other", "k": 3, "instances": [[1.0], [2.0]]}]
    assert kind == pyarrow.int8()


@pytest.mark.parametrize(
    "found", [{"error": "no"}, {"metadata": []}, metadata({"x": {}}, {})], ids=repr
)
async def test_other_metadata_says_nothing(world: ProtocolWorld, found: dict[str, Any]) -> None:
    world.server.metadata = found
    _, kind = await predict(world, records(["a", {"b64": "AA=="}, [[1], "b"]]))
    assert sent(world) == ["a", {"b64": "AA=="}, [[1], "b"]]
    assert kind is None


async def test_what_the_model_does_not_have_is_named_before_the_first_request(
    world: ProtocolWorld,
) -> None:
    world.server.metadata = IMAGE
    for tensors in ({"inputs": [{"name": "x", "columns": ["a"]}]}, {"outputs": [{"name": "x"}]}):
        with pytest.raises(ContractError, match="the model has no"):
            await predict(world, records([{"a": 1}]), **tensors)
    with pytest.raises(
        InferenceError, match=r"the record has 3 values, the model's metadata requires 4"
    ):
        await predict(world, records([[1, 2, 3]]))
    assert world.server.bodies == []
