"""Instances of V1 from records with columns."""

import io
from base64 import b64encode
from typing import Any

import orjson
import pyarrow
import pytest
from PIL import Image

from inferrun.plugins import ArrowRecords, ContractError, JsonRecords, Records, Tensors
from inferrun_runner.protocols.tensors.signature import signature_of
from inferrun_runner.protocols.v1.instances import instances_of
from inferrun_runner.protocols.v1.rest import decode
from tests.unit.runner.batches import decoded


# Any: JSON
def instances(
    records: Records, *inputs: dict[str, Any]
) -> tuple[list[Any], list[int], dict[int, str]]:
    tensors = Tensors.model_validate({"inputs": inputs})
    signature = signature_of(tensors, None, "", target="model 'm'", default="")
    texts, places, faults = instances_of(records, signature.inputs, tensors.inputs)
    return [orjson.loads(text) for text in texts], places, faults


ROWS: list[dict[str, Any]] = [  # Any: JSON
    {"a": 1, "b": "x", "c": [[1.5], [2.0]]},
    {"a": None, "b": "", "c": [[3.5], [4.0]]},
]


def test_named_inputs_are_members_of_each_instance() -> None:
    records = JsonRecords([orjson.dumps(row) for row in ROWS])
    inputs = (
        {"name": "id", "columns": ["a"]},
        {"name": "text", "columns": ["b"]},
        {"name": "m", "columns": ["c"]},
    )
    expected = [{"id": row["a"], "text": row["b"], "m": row["c"]} for row in ROWS]
    assert instances(records, *inputs) == (expected, [0, 1], {})
    table = pyarrow.table({
        "a": pyarrow.array([1, None], pyarrow.int64()), "b": ["x", ""], "c": [[[1.5], [2.0]], [[3.5], [4.0]]]
    }).to_batches()[0]  # fmt: skip
    found, places, faults = instances(ArrowRecords(table), *inputs)
    assert (found, places) == (expected[:1], [0])
    assert faults == {1: "column 'a' has null, which datatype INT64 cannot represent (tensor 'id')"}


def test_one_input_without_a_name_is_the_instance() -> None:
    records = JsonRecords([orjson.dumps(row) for row in ROWS])
    assert instances(records, {"columns": ["b"]})[0] == ["x", ""]
    assert instances(records, {"columns": ["a", "b"]})[0] == [[1, "x"], [None, ""]]
    table = pyarrow.record_batch({"b": pyarrow.array([b"text", b"\xff\x00"], pyarrow.binary())})
    assert instances(ArrowRecords(table), {"columns": ["b"]})[0] == ["text", {"b64": "/wA="}]


def test_images_are_instances_of_pixels() -> None:
    out = io.BytesIO()
    Image.new("RGB", (1, 2), (255, 0, 51)).save(out, "PNG")
    record = orjson.dumps({"content": {"b64": b64encode(out.getvalue()).decode()}})
    one = {"columns": ["content"], "decode": "Image", "datatype": "UINT8", "shape": [-1, 2, 1, 3]}
    assert instances(JsonRecords([record]), one) == ([[[[255, 0, 51]], [[255, 0, 51]]]], [0], {})
    with pytest.raises(ContractError, match="needs one column, and the shape"):
        instances(JsonRecords([record]), {"columns": ["content"], "decode": "Image"})


def test_wanted_outputs_are_members_of_the_predictions() -> None:
    wanted = Tensors.model_validate({"outputs": [{"name": "p", "resultName": "score"}]})
    signature = signature_of(wanted, None, "", target="model 'm'", default="")
    assert decoded(
        decode(b'{"predictions":[{"p":0.5,"q":1},{"p":null,"q":2}]}', signature, records=2)
    ) == [
        {"score": 0.5},
        {"score": None},
    ]
    assert decoded(decode(b'{"predictions":[0.5]}', signature, records=1)) == [{"score": 0.5}]
    with pytest.raises(ValueError, match="no output 'p'"):
        decode(b'{"predictions":[{"q":1}]}', signature, records=1)


def test_null_does_not_stand_for_a_number_that_is_asked_for() -> None:
    wanted = Tensors.model_validate({"outputs": [{"name": "p", "datatype": "FP64"}, {"name": "q"}]})
    signature = signature_of(wanted, None, "", target="model 'm'", default="")
    results = decode(
        b'{"predictions":[{"p":null,"q":1},{"p":1,"q":null},{"p":1,"q":NaN}]}', signature, records=3
    )
    assert {at: one.message for at, one in results.errors.items()} == {
        0: "the model returned null in 'p'",
        2: "the model returned nan",
    }
