"""Predictions as Arrow columns of the type that all results of a run have."""

import math
from typing import Any

import numpy
import orjson
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inferrun.contract import OutputTensor
from inferrun.plugins import ArrowRecords, Results, Tensors
from inferrun_runner.protocols.tensors.answers import ModelOutput
from inferrun_runner.protocols.tensors.arrow_answers import type_of
from inferrun_runner.protocols.tensors.datatypes import KINDS, from_raw, raw_of
from inferrun_runner.protocols.tensors.predictions import results_of
from inferrun_runner.protocols.tensors.signature import Signature, signature_of
from tests.unit.runner.batches import ARROW_TYPES, decoded


def signature(
    *outputs: tuple[str, str, list[int]], chosen: tuple[OutputTensor, ...] = ()
) -> Signature:
    metadata = {
        "outputs": [
            {"name": name, "datatype": kind, "shape": shape} for name, kind, shape in outputs
        ]
    }
    return signature_of(Tensors(outputs=chosen), metadata, "x", target="model 'm'")


def column_of(results: Results) -> pyarrow.Array:
    assert isinstance(results.values, ArrowRecords)
    return results.values.table.column("prediction")


def typed(
    output: ModelOutput,
    described: Signature,
    *,
    records: int,
    stored: pyarrow.DataType | None = None,
) -> Results:
    """The results as a column of the stored type, which is by default the one that the signature
    says."""
    stored = stored or type_of(described)
    return results_of([output], described, records=records, is_typed=True, stored=stored)


@pytest.mark.parametrize(
    ("datatype", "shape", "expected"),
    [
        ("INT64", [-1], pyarrow.int64()),
        ("FP32", [-1, 1], pyarrow.float32()),
        ("FP32", [-1, 3], pyarrow.list_(pyarrow.float32(), 3)),
        ("UINT8", [-1, 2, -1], pyarrow.list_(pyarrow.list_(pyarrow.uint8()), 2)),
        ("BOOL", [-1], pyarrow.bool_()),
        ("BYTES", [-1], pyarrow.string()),
        ("BF16", [-1], pyarrow.float32()),
        ("FP16", [-1], pyarrow.float16()),
    ],
)
def test_the_metadata_says_which_type_predictions_have(
    datatype: str, shape: list[int], expected: pyarrow.DataType
) -> None:
    assert type_of(signature(("y", datatype, shape))) == expected


def test_without_metadata_the_contract_says_which_type_predictions_have() -> None:
    assert type_of(signature()) is None
    assert type_of(signature(chosen=(OutputTensor(name="a"),))) is None
    wanted = (
        OutputTensor(name="a", datatype="INT32", shape=(-1,)),
        OutputTensor(name="b", result_name="c", datatype="BYTES", shape=(-1, 2), type="Binary"),
    )
    found = type_of(signature(chosen=wanted))
    assert found == pyarrow.struct({"a": pyarrow.int32(), "c": pyarrow.list_(pyarrow.binary(), 2)})


@pytest.mark.parametrize(
    ("known", "found", "expected"),
    [
        ([-1, -1], [2, 0], [[], []]),
        ([-1, -1], [2, 1], [["0"], ["1"]]),
        ([-1, -1, 1], [2, 1, 1], [["0"], ["1"]]),
        ([-1, -1, 1], [2, 0, 1], [[], []]),
        ([-1, -1, 1], [2, 1], [["0"], ["1"]]),
        ([-1, -1, 2], [2, 0, 2], [[], []]),
        ([-1, -1, 2], [2, 1, 2], [[["0", "1"]], [["2", "3"]]]),
        ([-1, 2, -1], [2, 2, 0], [[[], []], [[], []]]),
        ([-1, 2, -1], [2, 2, 1], [[["0"], ["1"]], [["2"], ["3"]]]),
        ([-1, -1, -1], [2, 1, 1], [[["0"]], [["1"]]]),
        ([-1, -1, -1], [2, 0, 0], [[], []]),
        ([-1, -1], [2], [["0"], ["1"]]),
        ([-1, -1, -1], [2], [[["0"]], [["1"]]]),
        ([-1, -1, 1], [2], [["0"], ["1"]]),
        ([-1, 2, -1], [2, 2], [[["0"], ["1"]], [["2"], ["3"]]]),
        ([-1, -1, 4], [2, 0], [[], []]),
        ([-1, 1], [2, 1], ["0", "1"]),
        ([-1], [2, 1], ["0", "1"]),
    ],
)
@pytest.mark.parametrize("is_json", [True, False])
@pytest.mark.parametrize("datatype", ["BYTES", "INT64"])
def test_a_variable_dimension_is_a_list_of_any_number_of_items(
    known: list[int], found: list[int], expected: list[Any], datatype: str, *, is_json: bool
) -> None:
    described, count = signature(("y", datatype, known)), math.prod(found)
    texts, numbers = [b"%d" % at for at in range(count)], numpy.arange(count)
    values: Any = [*map(bytes.decode, texts)] if is_json else texts
    if datatype == "INT64":
        values = numbers.tolist() if is_json else numbers
    outputs, stored = [ModelOutput("y", datatype, found, values, is_json)], type_of(described)
    column = column_of(typed(outputs[0], described, records=2))
    assert column.type == stored
    same = (
        expected if datatype == "BYTES" else orjson.loads(orjson.dumps(expected).replace(b'"', b""))
    )
    assert column.to_pylist() == same
    assert decoded(results_of(outputs, described, records=2)) == same


def test_without_metadata_an_output_of_one_item_is_a_list_if_the_others_are() -> None:
    stored = pyarrow.list_(pyarrow.int32())
    for shape in ([2, 1], [2]):
        output = ModelOutput("y", "INT32", shape, numpy.array([7, 8], "<i4"))
        assert column_of(typed(output, signature(), records=2, stored=stored)).to_pylist() == [
            [7],
            [8],
        ]
    chosen = signature(chosen=(OutputTensor(name="y"),))
    column = column_of(typed(output, chosen, records=2, stored=pyarrow.struct([("y", stored)])))
    assert column.to_pylist() == [{"y": [7]}, {"y": [8]}]


def test_predictions_of_v1_keep_a_last_dimension_of_one() -> None:
    described = signature(("y", "FP32", [-1, 1]))
    assert type_of(described, has_ones=True) == pyarrow.list_(pyarrow.float32(), 1)
    assert type_of(described) == pyarrow.float32()


NUMBERS = sorted(set(KINDS) - {"BF16"})


@pytest.mark.parametrize("datatype", NUMBERS)
@settings(max_examples=50)
@given(data=st.data())
def test_a_tensor_is_the_same_after_a_round_trip(datatype: str, data: st.DataObject) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=4, max_side=4))
    elements: Any = (
        {"allow_nan": False, "allow_infinity": False} if KINDS[datatype].kind == "f" else None
    )
    sent = data.draw(arrays.arrays(KINDS[datatype], shape, elements=elements))
    raw = bytes(raw_of(sent, datatype))
    described = signature(("y", datatype, [-1, *shape[1:]]))
    stored = type_of(described)
    output = ModelOutput("y", datatype, list(shape), from_raw(raw, datatype, count=sent.size))
    column = column_of(typed(output, described, records=shape[0]))
    assert column.type == stored
    while pyarrow.types.is_fixed_size_list(column.type):
        column = column.flatten()
    assert column.type == ARROW_TYPES[datatype]
    assert numpy.asarray(column.to_numpy(zero_copy_only=False)).tobytes() == sent.tobytes()


@pytest.mark.parametrize(
    ("datatype", "values", "kind"),
    [
        ("INT64", [(1 << 53) + 1, -(1 << 63), None], pyarrow.int64()),
        ("UINT64", [(1 << 64) - 1, 0, None], pyarrow.uint64()),
        ("FP64", [0.1, 1e300, float("nan")], pyarrow.float64()),
        ("BOOL", [True, False, None], pyarrow.bool_()),
        ("BYTES", ["ü", "", None], pyarrow.string()),
    ],
)
def test_values_in_json_have_the_type_too(
    datatype: str, values: list[Any], kind: pyarrow.DataType
) -> None:
    output = ModelOutput("y", datatype, [3], values, is_json=True)
    results = typed(output, signature(), records=3, stored=kind)
    column = column_of(results)
    assert column.type == kind
    assert column.to_pylist()[:2] == values[:2]
    assert set(results.errors) == {2}
    assert results.errors[2].code == "invalid_prediction"


def test_a_value_that_does_not_fit_the_stored_type_is_an_error_of_its_record() -> None:
    output = ModelOutput("y", "INT32", [3], numpy.array([1, 300, -3], numpy.int32))
    results = typed(output, signature(), records=3, stored=pyarrow.int8())
    assert column_of(results).to_pylist() == [1, None, -3]
    assert (
        results.errors[1].message
        == "the model returned a value that is not of type int8, the type of all results of the run"
    )


def test_bytes_that_are_no_text_name_the_field_that_takes_them() -> None:
    chosen = (OutputTensor(name="y"),)
    described = signature(("y", "BYTES", [-1]), chosen=chosen)
    output = ModelOutput("y", "BYTES", [2], [b"text", b"\xff"])
    results = typed(output, described, records=2)
    assert "set tensors.outputs.0.type to Binary" in results.errors[1].message
    binary = signature(("y", "BYTES", [-1]), chosen=(OutputTensor(name="y", type="Binary"),))
    results = typed(output, binary, records=2)
    assert not results.errors
    assert column_of(results).to_pylist() == [{"y": b"text"}, {"y": b"\xff"}]


def test_a_model_without_a_dimension_for_records_returns_the_value_of_one() -> None:
    metadata = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [3]}]}
    tensors = Tensors.model_validate({"inputs": [{"name": "x", "columns": ["x"], "shape": []}]})
    described = signature_of(tensors, metadata, "", target="model 'm'")
    assert type_of(described) == pyarrow.list_(pyarrow.float32(), 3)
    output = ModelOutput("y", "FP32", [3], numpy.array([1, 2, 3], numpy.float32))
    results = typed(output, described, records=1)
    assert column_of(results).to_pylist() == [[1, 2, 3]]
