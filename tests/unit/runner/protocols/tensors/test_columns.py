"""Records as the tensors of a request."""

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy
import orjson
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from inferrun.contract import InputTensor
from inferrun.formats.record_errors import not_sent, selected, with_record_errors
from inferrun.plugins import (
    ArrowRecords,
    ContractError,
    InferenceError,
    JsonRecords,
    MixedBatch,
    Records,
    Results,
    Tensors,
)
from inferrun_runner.protocols.tensors.arrow_columns import ArrowColumn
from inferrun_runner.protocols.tensors.columns import (
    Tensor,
    Unfit,
    groups_of,
    tensor_of,
    tensors_of,
)
from inferrun_runner.protocols.tensors.datatypes import raw_of
from inferrun_runner.protocols.tensors.signature import Signature, TensorSpec, signature_of
from inferrun_runner.protocols.v2.rest_messages import encode_json, text_of
from tests.unit.runner.batches import decoded


def input_of(metadata: object, wanted: str = "", *columns: str) -> TensorSpec:
    inputs = (InputTensor(columns=columns),) if columns else ()
    return signature_of(Tensors(inputs=inputs), metadata, wanted, target="model 'm'").inputs[0]


def described(shape: list[object] | None, datatype: str = "FP32", *columns: str) -> TensorSpec:
    return input_of({"inputs": [{"name": "x", "datatype": datatype, "shape": shape}]}, "", *columns)


def table(**columns: Any) -> ArrowRecords:
    return ArrowRecords(pyarrow.record_batch(columns))


def content_of(tensor: Tensor) -> bytes:
    """The values as a request in JSON has them."""
    return tensor.text or text_of(tensor.values)


def sent(one: TensorSpec, *texts: bytes) -> tuple[list[int], object]:
    """Shape and values of a tensor in JSON."""
    tensor = tensor_of(JsonRecords(list(texts)), one, is_json=True)
    return list(tensor.shape), orjson.loads(content_of(tensor))


def test_a_request_has_one_flat_input_of_rows_by_columns() -> None:
    tensor = tensor_of(JsonRecords([b"[1, 2.5]", b"[3,4]"]), TensorSpec("input-0"), is_json=True)
    body = orjson.loads(encode_json([tensor], Signature((TensorSpec("input-0"),))))
    assert body == {
        "inputs": [{"name": "input-0", "shape": [2, 2], "datatype": "FP32", "data": [1, 2.5, 3, 4]}]
    }


@pytest.mark.parametrize(
    "metadata",
    [None, {}, [], {"inputs": None}, {"inputs": []}, {"inputs": ["x"]}, {"inputs": [{"name": "x"}]},
     {"inputs": [{"name": "x", "shape": "?"}]}, {"inputs": [{"name": "x", "shape": ["x", 4]}]}],
)  # fmt: skip
def test_without_metadata_the_shape_is_that_of_the_records(metadata: object) -> None:
    one = input_of(metadata, "input-0")
    assert one == TensorSpec(name="input-0")
    assert sent(one, b"[1,2]", b"[3,4]")[0] == [2, 2]
    assert sent(one, b"[[1,2],[3,4]]")[0] == [1, 2, 2]
    assert sent(one, b"5")[0] == [1, 1]


@pytest.mark.parametrize(
    ("shape", "record", "expected"),
    [
        ([-1, 4], b"[1,2,3,4]", [1, 4]),
        ([-1, 4, 1], b"[1,2,3,4]", [1, 4, 1]),
        ([-1, -1], b"[1,2,3]", [1, 3]),
        ([-1, -1, 1], b"[1,2,3]", [1, 3, 1]),
        ([-1, 2, 2], b"[1,2,3,4]", [1, 2, 2]),
        ([-1, 2, 2], b"[[1,2],[3,4]]", [1, 2, 2]),
        ([-1, -1, 2], b"[[1,2],[3,4],[5,6]]", [1, 3, 2]),
        ([-1, 1, 2, 2], b"[[1,2],[3,4]]", [1, 1, 2, 2]),
        ([-1, 2, 2], b"[[[1,2],[3,4]]]", [1, 2, 2]),
        ([-1, -1, -1], b"[[1,2,3],[4,5,6]]", [1, 2, 3]),
        ([-1], b"7", [1]),
        ([-1], b"[7]", [1]),
        ([1, 3], b"[1,2,3]", [1, 3]),
        ([4], b"[1,2,3,4]", [1, 4]),
    ],
)
def test_a_record_gets_the_dimensions_of_the_metadata(
    shape: list[object], record: bytes, expected: list[int]
) -> None:
    assert sent(described(shape), record)[0] == expected


@pytest.mark.parametrize(
    ("shape", "record", "fault"),
    [
        (
            [-1, 4],
            b"[1,2,3]",
            "the record has 3 values, the model's metadata requires 4 for the tensor 'x'",
        ),
        ([-1, -1, 2], b"[1,2,3]", "has 3 values, the model's metadata requires a multiple of 2"),
        ([-1], b"[1,2]", "has 2 values, the model's metadata requires 1"),
        (
            [-1, 2, 3],
            b"[[1,2],[3,4],[5,6]]",
            r"has dimensions \[3, 2\], the model's metadata requires \[2, 3\]",
        ),
        ([-1, 4], b"[[1,2],[3,4]]", r"has dimensions \[2, 2\]"),
        ([-1, -1, -1], b"[1,2,3,4]", "give it as nested arrays"),
        ([-1, 2, 2], b"[[1,2],[3]]", "arrays of different lengths"),
    ],
)
def test_a_record_of_another_shape_is_not_sent(
    shape: list[object], record: bytes, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        sent(described(shape), record)


def test_the_named_input_is_found_among_several() -> None:
    metadata = {
        "inputs": [
            {"name": "a", "shape": [-1, 4]},
            {"name": "b", "datatype": "int64", "shape": [-1, 2, 1]},
        ]
    }
    assert input_of(metadata, "b") == TensorSpec("b", "INT64", (2, 1))
    assert input_of(metadata).name == "a"
    signature = signature_of(Tensors(), metadata, "b", target="")
    assert signature.note == "its inputs 'a' are fed by no column, so they must be optional"
    assert signature.mismatches == ()
    assert input_of(None).name == "input-0"


def test_the_shape_of_the_only_input_needs_no_columns() -> None:
    given = Tensors.model_validate({"inputs": [{"name": "x", "shape": [3], "datatype": "FP64"}]})
    spec = signature_of(
        given, {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3]}]}, "", target=""
    ).inputs[0]
    assert (spec.has_batch, spec.dimensions, spec.datatype) == (False, (3,), "FP64")
    tensor = tensor_of(JsonRecords([b"[1,2,3]"]), spec, is_json=True)
    assert (tensor.shape, tensor.text) == ([3], b"[1,2,3]")
    two = Tensors.model_validate({"inputs": [{"name": "x"}, {"name": "y", "columns": ["y"]}]})
    with pytest.raises(
        ContractError, match=r"tensors.inputs.0.columns: required with several inputs"
    ):
        signature_of(two, None, "", target="")


def test_an_output_that_the_metadata_lacks_is_a_mismatch() -> None:
    given = Tensors.model_validate({"outputs": [{"name": "output-1", "resultName": "total"}]})
    metadata = {"outputs": [{"name": "output-0", "datatype": "FP64", "shape": [-1, 1]}]}
    signature = signature_of(given, metadata, "", target="")
    assert signature.outputs[0].name == "output-1"
    assert signature.mismatches == (
        "tensors.outputs.0.name: the model has no output 'output-1'; it has 'output-0'",
    )


def test_an_unknown_datatype_is_reported_before_anything_is_sent() -> None:
    with pytest.raises(
        InferenceError,
        match="model 'm': input 'x' has datatype TYPE_FP32; records can be sent as BF16",
    ):
        described([-1, 4], "TYPE_FP32")


def test_short_numbers_are_sent_as_they_were_written() -> None:
    rows = [b"[1, 2.50]", b"[3,-0.123456789012]", b"[null,1.5e-07]"]
    tensor = tensor_of(JsonRecords(rows), described([-1, 2]), is_json=True)
    assert content_of(tensor) == b"[1, 2.50,3,-0.123456789012,null,1.5e-07]"


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT64", "INT8"])
@given(
    rows=st.lists(
        st.lists(
            st.integers() | st.floats(width=32, allow_nan=False, allow_infinity=False) | st.none(),
            min_size=2,
            max_size=2,
        ),
        min_size=1,
    )
)
def test_json_and_bytes_have_the_same_values(datatype: str, rows: list[list[float | None]]) -> None:
    records = JsonRecords(
        [orjson.dumps(row) for row in rows if all(one is None or abs(one) < 2**63 for one in row)]
    )
    if not len(records):
        return
    one = described([-1, 2], datatype)
    try:
        raw = tensor_of(records, one, is_json=False)
    except ValueError:
        with pytest.raises(ValueError, match="cannot represent"):
            tensor_of(records, one, is_json=True)
        return
    text = tensor_of(records, one, is_json=True)
    again = tensor_of(JsonRecords([content_of(text)]), TensorSpec("x", datatype), is_json=False)
    assert bytes(raw_of(again.values, datatype)) == bytes(raw_of(raw.values, datatype))


@pytest.mark.parametrize(
    "record", [b"16777217", b"-16777217", b"1e39", b"1.5E39", b"12345678901234567890"]
)
def test_an_integer_that_would_be_rounded_is_not_sent_as_it_was_written(record: bytes) -> None:
    for is_json in (True, False):
        with pytest.raises(
            ValueError, match=r"the record has .*, which datatype FP32 cannot represent"
        ):
            tensor_of(JsonRecords([b"[0.5,%b]" % record]), described([-1, 2]), is_json=is_json)


def test_an_integer_that_would_be_rounded_is_found_anywhere_in_a_long_request() -> None:
    for at in range((1 << 18) - 20, (1 << 18) + 20):
        text = b"[0.123456789," + b" " * at + b"16777217]"
        with pytest.raises(Unfit):
            tensor_of(JsonRecords([text]), TensorSpec("x"), is_json=True)


def test_records_that_are_objects_are_rejected() -> None:
    with pytest.raises(ContractError, match="need records that are arrays or single values"):
        sent(TensorSpec("x"), b'{"custom_id": "a"}')


def predicted(
    records: Records, one: TensorSpec, *, is_json: bool = True
) -> tuple[Results, list[Tensor]]:
    """Results that are the positions among the records that were sent, and the tensors."""
    tensors, places, faults = tensors_of(records, [one], is_json=is_json)
    sent_ones = Results(JsonRecords([b"%d" % at for at in range(len(places))])) if places else None
    unsent = {at: not_sent(text) for at, text in faults.items()}
    return with_record_errors(sent_ones, unsent, total=len(records)), tensors


def test_only_the_records_that_fit_are_sent() -> None:
    texts = [b"[1,2]", b"[1,null]", b"[1]", b'["a",1]', b"[3,4]", b"[1.5,2]"]
    results, tensors = predicted(JsonRecords(texts), described([-1, 2], "INT64"))
    assert set(results.errors) == {1, 2, 3, 5}
    assert [decoded(results)[at] for at in (0, 4)] == [0, 1]
    assert [(one.shape, content_of(one)) for one in tensors] == [([2, 2], b"[1,2,3,4]")]
    assert (
        results.errors[1].message
        == "the record has null, which datatype INT64 cannot represent (tensor 'x')"
    )


@pytest.mark.parametrize(
    ("shape", "texts", "groups"),
    [
        (None, [b"[1]", b"[1,2]", b"[[1,2]]", b"[3,4]"], [[0], [1, 3], [2]]),
        ([-1, -1], [b"[1]", b"[1,2]", b"3", b"[3,4]"], [[0], [1, 3], [2]]),
        ([-1], [b"1", b"[2]", b"3"], [[0, 2], [1]]),
        ([-1, 2, 2], [b"[1,2,3,4]", b"[[1,2],[3,4]]"], [[0], [1]]),
        ([-1, 2], [b"[1,2]", b"[3,4]"], [[0, 1]]),
    ],
)
def test_records_of_different_dimensions_need_requests_of_their_own(
    shape: list[object] | None, texts: list[bytes], groups: list[list[int]]
) -> None:
    records, one = JsonRecords(texts), described(shape)
    assert [list(group) for group in groups_of(records, [one])] == groups
    if len(groups) > 1:
        with pytest.raises(MixedBatch):
            tensors_of(records, [one], is_json=True)
    for group in groups:
        tensors, places, faults = tensors_of(selected(records, group), [one], is_json=True)
        assert (len(places), faults, tensors[0].shape[0]) == (len(group), {}, len(group))


def test_a_record_that_does_not_fit_is_found_before_the_others_are_divided() -> None:
    records = JsonRecords([b"[1]", b"[1,2]", b"[[1],[2,3]]", b'["a"]'])
    with pytest.raises(MixedBatch):
        tensors_of(records, [described([-1, -1])], is_json=True)
    assert [list(group) for group in groups_of(records, [described([-1, -1])])] == [
        [0, 3],
        [1],
        [2],
    ]


def test_without_a_record_that_can_be_sent_nothing_is_sent() -> None:
    results, tensors = predicted(JsonRecords([b"[null]", b"[0.5]"]), described([-1, 1], "INT64"))
    assert (results.counts.completed, results.counts.failed) == (0, 2)
    assert tensors == []


COLUMNS = {
    "numbers": (pyarrow.array([1, None, 3], pyarrow.int64()), "FP32", {}),
    "integers that FP32 rounds": (
        pyarrow.array([16_777_216, 16_777_217, None], pyarrow.int64()),
        "FP32",
        {1},
    ),
    "a missing integer": (pyarrow.array([1, None, 3], pyarrow.int64()), "INT64", {1}),
    "large integers": (pyarrow.array([2**63, 1, 2**64 - 1], pyarrow.uint64()), "UINT64", {}),
    "out of range": (pyarrow.array([1.0, 1e300, float("inf")]), "FP32", {1}),
    "fractions": (pyarrow.array([1.0, 1.5, 2.0]), "INT16", {1}),
    "booleans": (pyarrow.array([True, None, False]), "BOOL", {1}),
    "booleans as numbers": (pyarrow.array([True, False, None]), "UINT8", {2}),
    "a dictionary": (pyarrow.array(["a", "b", "a"]).dictionary_encode(), "BYTES", {}),
    "bytes": (pyarrow.array([b"\xff", None, b""]), "BYTES", {1}),
    "texts of numbers": (pyarrow.array(["1", "x", "2.5"]), "FP64", {1}),
    "texts that are views": (pyarrow.array(["1", "x", "2.5"], pyarrow.string_view()), "FP64", {1}),
    "decimals that are integers": (
        pyarrow.array([1, None, 2**53 + 1], pyarrow.decimal128(38, 0)),
        "INT64",
        {1},
    ),
    "decimals with fractions": (
        pyarrow.array([Decimal("1.50"), Decimal(2), None], pyarrow.decimal128(5, 2)),
        "INT32",
        {0, 2},
    ),
    "decimals out of range": (
        pyarrow.array([2**63, 300, 1], pyarrow.decimal128(38, 0)),
        "INT8",
        {0, 1},
    ),
    "large decimals": (
        pyarrow.array([2**64 - 1, 2**64, -1], pyarrow.decimal128(38, 0)),
        "UINT64",
        {1, 2},
    ),
    "a dictionary of views": (
        pyarrow.DictionaryArray.from_arrays(
            [0, 1, 0], pyarrow.array(["a", "b"], pyarrow.string_view())
        ),
        "BYTES",
        {},
    ),
    "no value at all": (pyarrow.nulls(3), "FP32", {}),
    "half precision": (pyarrow.array([1.5, None, 2.0], pyarrow.float16()), "FP16", {}),
}


def test_decimals_become_floating_numbers_if_the_contract_says_so_and_no_integer_is_rounded() -> (
    None
):
    values = [Decimal("0.1"), Decimal(2**53 + 1), None, Decimal("9007199254740993.25")]
    column = ArrowColumn("x", pyarrow.array(values, pyarrow.decimal128(38, 2)))
    found, faults = column.converted(TensorSpec("x", "FP64", is_stated=True), "FP64")
    assert (set(faults), [float(one) for one in found][0::3]) == ({1}, [0.1, 9007199254740994.0])
    _, faults = column.converted(TensorSpec("x", "FP64"), "FP64")
    assert set(faults) == {0, 1, 2, 3}


@pytest.mark.parametrize(("column", "datatype", "unfit"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_is_sent_as_its_values_are(
    column: pyarrow.Array, datatype: str, unfit: set[int]
) -> None:
    records = table(pad=pyarrow.array([0] * 3), x=column)
    results, tensors = predicted(records, described([-1, 1], datatype, "x"), is_json=False)
    assert set(results.errors) == set(unfit)
    assert len(tensors) == 1
    for error in results.errors.values():
        assert error.message.startswith("column 'x' has ")


MISSING: dict[str, list[int | None]] = {"pad": [0, 0], "x": [None, None]}


@pytest.mark.parametrize(
    "write", [pandas.DataFrame(MISSING).to_parquet, polars.DataFrame(MISSING).write_parquet]
)
def test_a_column_whose_values_are_all_missing_has_no_type(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    write(tmp_path / "rows.parquet")
    [rows] = parquet.read_table(tmp_path / "rows.parquet").to_batches()
    assert rows.schema.field("x").type == pyarrow.null()
    results, tensors = predicted(ArrowRecords(rows), described([-1, 1], "FP32", "x"), is_json=False)
    assert (results.errors, numpy.isnan(tensors[0].values).tolist()) == ({}, [True, True])


def test_list_columns_become_dimensions_and_others_are_errors() -> None:
    one = described([-1, 2, 2], "FP64", "x")
    lists = [[1, 2, 3, 4], [1, 2, 3], None, [5, 6, 7, 8], [], [1, 2, 3, None]]
    for kind in (pyarrow.list_(pyarrow.int32()), pyarrow.large_list(pyarrow.float64())):
        rows = pyarrow.record_batch({"x": pyarrow.array([None, *lists], kind)}).slice(1)
        results, (tensor,) = predicted(ArrowRecords(rows), one)
        assert set(results.errors) == {1, 2, 4}
        assert list(tensor.shape) == [3, 2, 2]
        assert orjson.loads(content_of(tensor)) == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, None]
    fixed = pyarrow.array([[1.0, 2, 3, 4], None, [5, 6, 7, 8]], pyarrow.list_(pyarrow.float32(), 4))
    results, (tensor,) = predicted(table(x=fixed), one)
    assert set(results.errors) == {1}
    assert orjson.loads(content_of(tensor)) == [1, 2, 3, 4, 5, 6, 7, 8]


def dimensions_of(value: object) -> tuple[int, ...] | None:
    """The dimensions of lists, up to the first that is 0; None if they are of different lengths."""
    if not isinstance(value, list):
        return ()
    inner = {dimensions_of(one) for one in value}
    if len(inner) > 1 or None in inner:
        return None
    return (len(value), *(next(iter(inner), None) or ()))


@pytest.mark.parametrize("depth", [1, 2, 3])
@given(data=st.data())
def test_records_of_each_dimensions_are_a_group_in_json_and_in_columns(
    depth: int, data: st.DataObject
) -> None:
    values: st.SearchStrategy[object] = st.integers(0, 9)
    kind: pyarrow.DataType = pyarrow.int64()
    for _ in range(depth):
        values, kind = st.lists(values, max_size=2), pyarrow.list_(kind)
    rows = data.draw(st.lists(values, min_size=1, max_size=12))
    one = described([-1] * (depth + 1), "INT64", "x")
    columns = ArrowRecords(
        pyarrow.record_batch({"x": pyarrow.array([None, *rows, None], kind)}).slice(1, len(rows))
    )
    fitting = {at for at, row in enumerate(rows) if dimensions_of(row) is not None}
    for records in (JsonRecords([orjson.dumps({"x": row}) for row in rows]), columns):
        sent = list[int]()
        groups = groups_of(records, [one])
        assert sorted(at for group in groups for at in group) == list(range(len(rows)))
        for group in groups:
            tensors, places, faults = tensors_of(selected(records, group), [one], is_json=True)
            assert set(faults.values()) <= {
                "column 'x' has arrays of different lengths (tensor 'x')"
            }
            sent += [group[at] for at in places]
            flat = [numbers_of(rows[group[at]]) for at in places]
            assert [orjson.loads(content_of(tensor)) for tensor in tensors] == [
                list(chain.from_iterable(flat))
            ] * bool(flat)
            assert all(math.prod(tensor.shape) == sum(map(len, flat)) for tensor in tensors)
        assert set(sent) == fitting


def numbers_of(value: object) -> list[object]:
    """The numbers in lists."""
    return (
        [number for one in value for number in numbers_of(one)]
        if isinstance(value, list)
        else [value]
    )


def test_an_empty_list_is_sent_if_its_dimension_is_variable() -> None:
    for records in (
        JsonRecords([b'{"x":[]}'] * 2),
        table(x=pyarrow.array([[], []], pyarrow.list_(pyarrow.int32()))),
    ):
        for kind in ("INT64", "BYTES", "BOOL", "FP32"):
            one = described([-1, -1], kind, "x")
            for is_json in (True, False):
                tensor = tensor_of(records, one, is_json=is_json)
                assert list(tensor.shape) == [2, 0]
                assert (
                    content_of(tensor) == b"[]"
                    if is_json
                    else bytes(raw_of(tensor.values, kind)) == b""
                )
        fixed = described([-1, 3], "INT64", "x")
        with pytest.raises(Unfit, match="column 'x' has 0 values, the model's metadata requires 3"):
            tensor_of(records, fixed, is_json=False)


def test_several_columns_are_the_values_of_a_record() -> None:
    one = described([-1, 2], "FP64", "a", "b")
    rows = [{"a": 1, "b": "2.5"}, {"a": [1], "b": 2}, {"a": None, "b": True}]
    results, (tensor,) = predicted(JsonRecords([orjson.dumps(row) for row in rows]), one)
    assert orjson.loads(content_of(tensor)) == [1.0, 2.5, None, 1.0]
    assert (
        results.errors[1].message
        == "column 'a' has an array, which datatype FP64 cannot represent (tensor 'x')"
    )


def test_infinity_is_sent_in_bytes_only() -> None:
    records = table(x=[1.0, float("inf")])
    assert not predicted(records, described([-1, 1]), is_json=False)[0].errors
    results, _ = predicted(records, described([-1, 1]))
    assert (
        "an infinite number, which JSON cannot represent; use the protocol grpc-v2"
        in results.errors[1].message
    )
