"""Responses of V2 as predictions."""

import orjson
import pytest

from inferrun.plugins import JsonRecords, RecordError, Results
from inferrun_runner.protocols.tensors.predictions import results_of
from inferrun_runner.protocols.tensors.signature import Signature, TensorSpec
from inferrun_runner.protocols.v2 import rest_messages
from tests.unit.runner.batches import decoded

SIGNATURE = Signature((TensorSpec("x"),))


def decode(body: bytes, *, records: int) -> Results:
    return results_of(rest_messages.decode_response(body, {}), SIGNATURE, records=records)


def response(**output: object) -> bytes:
    return orjson.dumps({"model_name": "m", "outputs": [{"name": "predict", **output}]})


@pytest.mark.parametrize(
    ("output", "predictions"),
    [
        ({"shape": [2], "data": [0, 1]}, [0, 1]),
        ({"shape": [2, 1], "data": [0.5, 1.5]}, [0.5, 1.5]),
        ({"shape": [2, 1], "data": [[0.5], [1.5]]}, [0.5, 1.5]),
        ({"shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}, [[1, 2, 3], [4, 5, 6]]),
        ({"shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}, [[1, 2, 3], [4, 5, 6]]),
        ({"shape": [2, 2, 1], "data": [1, 2, 3, 4]}, [[1, 2], [3, 4]]),
        (
            {"shape": [2, 2, 2], "data": [1, 2, 3, 4, 5, 6, 7, 8]},
            [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        ),
        ({"data": [1, 2]}, [1, 2]),
        ({"data": [1, 2, 3, 4]}, [[1, 2], [3, 4]]),
        ({"shape": [2], "datatype": "BYTES", "data": ["a", "b"]}, ["a", "b"]),
    ],
)
def test_a_response_gives_one_prediction_per_record(
    output: dict[str, object], predictions: list[object]
) -> None:
    assert decoded(decode(response(**output), records=2)) == predictions


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"Traceback (most recent call last)", "not valid JSON"),
        (b'{"error": "no"}', '"outputs"'),
        (b'{"outputs": []}', '"outputs"'),
        (b"[1, 2]", '"outputs"'),
        (response(shape=[2]), '"data"'),
        (response(shape=[3], data=[1, 2, 3]), "3 rows for 2 records"),
        (response(shape=[2, 2], data=[1, 2, 3]), "3 values"),
        (response(shape=[2], data=[1, 2, 3, 4]), "4 values"),
        (response(data=[1, 2, 3]), "3 values"),
        (response(shape=[2, -1], data=[]), "no shape of values"),
        (
            response(shape=[2, 2], data=[[1, 2, 3], [4]]),
            "nested arrays of 1 and 3 values, which do not match its shape",
        ),
        (
            response(shape=[2, 2], data=[[1, 2, 3, 4]]),
            "nested arrays of 4 values, which do not match its shape",
        ),
        (
            response(shape=[2, 2, 2], data=[[[1, 2, 3, 4]], [[5, 6, 7, 8]]]),
            "nested arrays of 1 values",
        ),
        (response(shape=[2], data=[[1, 2]]), "nested arrays of 2 values"),
        (response(shape=[2, 2], data=[[1, 2], 3, 4]), "mixes values and arrays"),
        (response(shape=[2, 2], data=[1, [2, 3], 4]), "mixes values and arrays"),
        (response(data=[[1], 2]), "mixes values and arrays"),
        (response(data=[[1, 2], [3]]), "nested arrays of 1 and 2 values"),
        (b'{"outputs": [{"data": [NaN, }]}', "not valid JSON"),
    ],
)
def test_an_invalid_response_is_described(body: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        decode(body, records=2)


def failed(name: str) -> RecordError:
    return RecordError("invalid_prediction", f"the model returned {name}")


@pytest.mark.parametrize(
    ("output", "predictions", "texts"),
    [
        (b'"shape": [3], "data": [1, null, 3]', [1, failed("null"), 3], [b"1", b"null", b"3"]),
        (
            b'"shape": [3], "data": [1, NaN, -Infinity]',
            [1, failed("nan"), failed("-inf")],
            [b"1", b"null", b"null"],
        ),
        (
            b'"shape": [3, 2], "data": [1, 2, NaN, 4, 5, 6]',
            [[1, 2], failed("nan"), [5, 6]],
            [b"[1,2]", b"[null,4]", b"[5,6]"],
        ),
        (
            b'"shape": [3], "data": ["a", null, "c"]',
            ["a", failed("null"), "c"],
            [b'"a"', b"null", b'"c"'],
        ),
        (b'"shape": [3], "data": [1e308, 1e308, 1e308]', [1e308] * 3, [b"1e+308"] * 3),
    ],
)
def test_an_invalid_value_is_an_error_of_its_record(
    output: bytes, predictions: list[object], texts: list[bytes]
) -> None:
    results = decode(b'{"outputs": [{"name": "o", ' + output + b"}]}", records=3)
    assert decoded(results) == predictions
    assert results.values == JsonRecords(texts)


@pytest.mark.parametrize("shape", [[2, 0], [2, -1], [2, -1, -1], [2, 0, 3]])
def test_values_that_a_shape_does_not_have_are_described(shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"requires 0|which is no shape of values"):
        decode(response(shape=shape, data=[1, 2]), records=2)


@pytest.mark.parametrize(
    ("shape", "prediction"),
    [([2, 0], []), ([2, 0, 4], []), ([2, 0, 1], []), ([2, 2, 0], [[], []]), (None, [])],
)
@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BOOL", ""])
def test_an_output_without_values_is_an_empty_list(
    shape: list[int] | None, prediction: object, datatype: str
) -> None:
    described = {"datatype": datatype} | ({} if shape is None else {"shape": shape})
    assert decoded(decode(response(**described, data=[]), records=2)) == [prediction] * 2
    if shape:
        assert (
            decoded(decode(response(**described, parameters={"binary_data_size": 0}), records=2))
            == [prediction] * 2
        )


def test_nan_in_an_object_is_an_error_of_its_record_and_null_is_not() -> None:
    body = b'{"outputs": [{"shape": [3], "data": [{"a": [1, NaN]}, {"a": null}, {"b": {"c": -Infinity}}]}]}'
    assert decode(body, records=3).errors == {
        0: RecordError("invalid_prediction", "the model returned nan"),
        2: RecordError("invalid_prediction", "the model returned -inf"),
    }


HOSTILE = {
    "deep": b'{"outputs": [NaN, ' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    "a surrogate": b'{"outputs": [{"shape": [2], "data": [NaN, "\\ud800"]}]}',
    "objects": b'{"outputs": [{"shape": [2], "data": [1, {"a": '
    + b"[" * 300
    + b"]" * 300
    + b"}]}]}",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_response_is_an_invalid_response(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not valid JSON|a value cannot be written as JSON"):
        decode(body, records=2)


def test_an_integer_of_many_digits_beside_nan_is_a_number() -> None:
    body = b'{"outputs": [{"shape": [2], "data": [NaN, 123456789012345678901234567890]}]}'
    results = decode(body, records=2)
    assert decoded(results)[1] == 1.2345678901234568e29
    assert list(results.errors) == [0]


def test_a_byte_order_mark_before_a_response_is_ignored() -> None:
    body = b'\xef\xbb\xbf{"outputs":[{"name":"y","shape":[2],"datatype":"FP32","data":[1.5,NaN]}]}'
    results = decode(body, records=2)
    assert set(results.errors) == {1}
