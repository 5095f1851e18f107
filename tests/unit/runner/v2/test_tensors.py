"""V2 requests and responses as JSON."""

import orjson
import pytest

from inferrun.plugins import ContractError, JsonRecords, RecordError, Results
from runner.v2.tensors import InputTensor, decode, encode, input_tensor, with_input_errors
from tests.unit.runner.batches import decoded


def response(**output: object) -> bytes:
    return orjson.dumps({"model_name": "m", "outputs": [{"name": "predict", **output}]})


def test_a_request_has_one_flat_input_of_rows_by_columns() -> None:
    body = orjson.loads(encode([b"[1, 2.5]", b"[3,4]"], InputTensor(name="input-0")))
    assert body == {"inputs": [{"name": "input-0", "shape": [2, 2], "datatype": "FP32", "data": [1, 2.5, 3, 4]}]}


def test_a_time_series_model_receives_a_trailing_dimension_of_one() -> None:
    metadata = {"inputs": [{"name": "past_values", "datatype": "FP32", "shape": [-1, 512, 1]}]}
    tensor = input_tensor(metadata, "past_values")
    assert orjson.loads(encode([orjson.dumps([1.0] * 512)], tensor))["inputs"][0]["shape"] == [1, 512, 1]


@pytest.mark.parametrize(
    "metadata",
    [None, {}, [], {"inputs": None}, {"inputs": []}, {"inputs": ["x"]}, {"inputs": [{"name": "x", "shape": [-1, -1]}]},
     {"inputs": [{"name": "x"}]}, {"inputs": [{"name": "x", "shape": "?"}]}, {"inputs": [{"shape": [-1, 3, 2]}]}],
)  # fmt: skip
def test_metadata_without_a_trailing_one_gives_rows_by_columns(metadata: object) -> None:
    assert input_tensor(metadata, "input-0") == InputTensor(name="input-0")


def test_the_named_input_is_found_among_several() -> None:
    metadata = {"inputs": [{"name": "a", "shape": [-1, 4]}, {"name": "b", "shape": [-1, 4, 1]}]}
    assert input_tensor(metadata, "b").has_trailing_one
    assert not input_tensor(metadata, "a").has_trailing_one


@pytest.mark.parametrize(
    ("shape", "width"), [([-1, 4], 4), ([-1, 512, 1], 512), ([-1, -1], 0), ([4], 0), ([-1, 3, 2], 0), (["x", 4], 0)]
)
def test_the_width_is_taken_from_the_metadata_if_it_has_one(shape: list[object], width: int) -> None:
    assert input_tensor({"inputs": [{"name": "a", "shape": shape}]}, "a").width == width


def test_an_unnamed_input_takes_its_name_from_the_metadata() -> None:
    assert input_tensor({"inputs": [{"name": "past_values"}]}, "").name == "past_values"
    assert input_tensor(None, "").name == "input-0"


@pytest.mark.parametrize(
    ("output", "predictions"),
    [
        ({"shape": [2], "data": [0, 1]}, [0, 1]),
        ({"shape": [2, 1], "data": [0.5, 1.5]}, [0.5, 1.5]),
        ({"shape": [2, 1], "data": [[0.5], [1.5]]}, [0.5, 1.5]),
        ({"shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}, [[1, 2, 3], [4, 5, 6]]),
        ({"shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}, [[1, 2, 3], [4, 5, 6]]),
        ({"shape": [2, 2, 1], "data": [1, 2, 3, 4]}, [[1, 2], [3, 4]]),
        ({"shape": [2, 2, 2], "data": [1, 2, 3, 4, 5, 6, 7, 8]}, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
        ({"data": [1, 2]}, [1, 2]),
        ({"data": [1, 2, 3, 4]}, [[1, 2], [3, 4]]),
        ({"shape": [2], "datatype": "BYTES", "data": ["a", "b"]}, ["a", "b"]),
    ],
)
def test_a_response_gives_one_prediction_per_record(output: dict[str, object], predictions: list[object]) -> None:
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
        (response(data=[]), "0 values"),
        (
            response(shape=[2, 2], data=[[1, 2, 3], [4]]),
            "nested arrays of 1 and 3 values, which do not match its shape",
        ),
        (response(shape=[2, 2], data=[[1, 2, 3, 4]]), "nested arrays of 4 values, which do not match its shape"),
        (response(shape=[2, 2, 2], data=[[[1, 2, 3, 4]], [[5, 6, 7, 8]]]), "nested arrays of 1 values"),
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


def test_numbers_are_sent_as_they_were_written() -> None:
    body = encode([b"[1, 2.50]", b"[3e2, null]"], InputTensor(name="x"))
    assert b'"data":[1, 2.50,3e2, null]' in body


def test_records_that_are_not_arrays_are_rejected() -> None:
    with pytest.raises(ContractError, match="the protocol v2 needs records that are arrays of numbers"):
        encode([b'{"custom_id": "a"}'], InputTensor(name="x"))


def failed(name: str) -> RecordError:
    return RecordError("invalid_prediction", f"the model returned {name}")


@pytest.mark.parametrize(
    ("output", "predictions", "texts"),
    [
        (b'"shape": [3], "data": [1, null, 3]', [1, failed("null"), 3], [b"1", b"null", b"3"]),
        (b'"shape": [3], "data": [1, NaN, -Infinity]', [1, failed("nan"), failed("-inf")], [b"1", b"null", b"null"]),
        (
            b'"shape": [3, 2], "data": [1, 2, NaN, 4, 5, 6]',
            [[1, 2], failed("nan"), [5, 6]],
            [b"[1,2]", b"[null,4]", b"[5,6]"],
        ),
        (b'"shape": [3], "data": ["a", null, "c"]', ["a", failed("null"), "c"], [b'"a"', b"null", b'"c"']),
        (b'"shape": [3], "data": [1e308, 1e308, 1e308]', [1e308] * 3, [b"1e+308"] * 3),
    ],
)
def test_an_invalid_value_is_an_error_of_its_record(
    output: bytes, predictions: list[object], texts: list[bytes]
) -> None:
    results = decode(b'{"outputs": [{"name": "o", ' + output + b"}]}", records=3)
    assert decoded(results) == predictions
    assert results.values == JsonRecords(texts)


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "fp64"])
def test_a_null_is_sent_to_a_floating_point_input(datatype: str) -> None:
    tensor = input_tensor({"inputs": [{"name": "x", "shape": [-1, 2], "datatype": datatype}]}, "x")
    assert tensor.unsendable([b"[1,null]", b"[2,3]"]) == []
    assert orjson.loads(encode([b"[1,null]"], tensor))["inputs"][0]["data"] == [1, None]


def test_a_null_for_an_integer_input_is_an_error_of_its_record() -> None:
    tensor = input_tensor({"inputs": [{"name": "x", "shape": [-1, 2], "datatype": "INT64"}]}, "x")
    texts = [b"[1,null]", b"[2,3]", b"[4,5]"]
    assert tensor.unsendable(texts) == [0]
    sent = Results(JsonRecords([b"[7,8]", b"[null,9]"]), {1: failed("nan")})
    results = with_input_errors(sent, [0], total=3, tensor=tensor)
    rejected = RecordError("invalid_input", "the record contains null, which datatype INT64 cannot represent")
    assert decoded(results) == [rejected, [7, 8], failed("nan")]
    assert results.values == JsonRecords([b"[null,null]", b"[7,8]", b"[null,9]"])


def test_without_a_record_that_can_be_sent_all_are_errors() -> None:
    tensor = InputTensor(name="x", datatype="INT64")
    results = with_input_errors(None, [0, 1], total=2, tensor=tensor)
    assert (results.counts.completed, results.counts.failed) == (0, 2)


@pytest.mark.parametrize("shape", [[2, 0], [2, -1], [2, -1, -1], [2, 0, 3]])
def test_a_shape_of_no_values_is_described(shape: list[int]) -> None:
    with pytest.raises(ValueError, match="which is that of no values"):
        decode(response(shape=shape, data=[1, 2]), records=2)


def test_nan_in_an_object_is_an_error_of_its_record_and_null_is_not() -> None:
    body = b'{"outputs": [{"shape": [3], "data": [{"a": [1, NaN]}, {"a": null}, {"b": {"c": -Infinity}}]}]}'
    assert decode(body, records=3).errors == {
        0: RecordError("invalid_prediction", "the model returned nan"),
        2: RecordError("invalid_prediction", "the model returned -inf"),
    }


HOSTILE = {
    "deep": b'{"outputs": [NaN, ' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    "a surrogate": b'{"outputs": [{"shape": [2], "data": [NaN, "\\ud800"]}]}',
    "objects": b'{"outputs": [{"shape": [2], "data": [1, {"a": ' + b"[" * 300 + b"]" * 300 + b"}]}]}",
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
