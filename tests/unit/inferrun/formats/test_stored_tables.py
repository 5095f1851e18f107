"""Stored tables of results as records: what is copied keeps its type, and what a retry takes over
is the same."""

import io
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from inferrun.formats.arrow.format import ARROW, Arrow
from inferrun.formats.json_columns import texts_in
from inferrun.formats.parquet.format import PARQUET, Parquet
from inferrun.formats.record_texts import copied_texts
from inferrun.formats.result_schema import ERROR_TYPE, JSON_TEXT, parse_type, result_schema
from inferrun.formats.stored_tables import blocks_of_tables, table_rows
from inferrun.plugins import ArrowRecords, Batch, Block, ColumnSelection, JsonRecords, Results
from inferrun_runner.program.result_types import columns_of

NAN, INFINITY = float("nan"), float("inf")
COPIED: dict[str, pa.Array] = {
    "int8": pa.array([-128, None, 127], pa.int8()),
    "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float16": pa.array([0.5, None, NAN], pa.float16()),
    "float": pa.array([0.1, INFINITY, NAN], pa.float32()),
    "double": pa.array([-0.0, -INFINITY, None]),
    "decimal": pa.array([Decimal("123456789012345678.25"), None, Decimal("-1.25")]),
    "bytes": pa.array([b"\x00\xff", None, b"A"]),
    "date": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
    "date beyond Python's": pa.array([10**8, None, 0], pa.date32()),
    "time": pa.array([86_400_000_000_000, None, 1], pa.time64("ns")),
    "moment": pa.array([1, None, -1], pa.timestamp("ns", "Europe/Rome")),
    "millisecond": pa.array([10**12, None, -1], pa.timestamp("ms")),
    "duration": pa.array([1, None, -1], pa.duration("ns")),
    "list": pa.array([[0.1, NAN], None, []], pa.list_(pa.float32())),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())),
    "struct": pa.array(
        [(1, b"\xff"), None, (None, None)], pa.struct([("a", pa.int32()), ("b", pa.binary())])
    ),
}
ERRORS = pa.array([None, ("rejected", "it is bad", 2), None], ERROR_TYPE)


def results(predicted: pa.Array, **columns: pa.Array) -> pa.RecordBatch:
    columns = {"index": pa.array([7, 8, 9]), **columns, "prediction": predicted, "error": ERRORS}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def block_of(table: pa.RecordBatch, **columns: object) -> Block:
    (block,) = blocks_of_tables(table_rows([table]), ColumnSelection(**columns), run="first")  # type: ignore[arg-type]
    return block


def table_in(block: Block) -> pa.RecordBatch:
    assert isinstance(block.copied, ArrowRecords)
    return block.copied.table


@pytest.mark.parametrize("name", COPIED)
@pytest.mark.parametrize("form", [PARQUET, ARROW], ids=lambda one: one.form)
def test_a_copied_column_has_the_same_type_and_values_in_the_next_results(
    form: Parquet | Arrow, name: str
) -> None:
    given = results(
        pa.array([1.5, None, 2.5]), custom_id=pa.array([1, 2, None], pa.uint16()), v=COPIED[name]
    )
    block = block_of(given, fed=("prediction",), copied=("v",))
    key, fields = columns_of(block)
    schema = result_schema(
        key=key, copied=fields, predicted=pa.int64(), types={}, is_flat=False, field=""
    ).arrow
    out = io.BytesIO()
    writer = form.writer(out, io.BytesIO(), schema=schema)
    sent = Results(JsonRecords([b"1", b"null", b"2"]), dict(block.errors))
    writer.write(Batch(first=0, records=block.records, ids=block.ids, copied=block.copied), sent)
    writer.close()
    found = form.read_table(out.getvalue())
    for column in ("v", "custom_id"):
        assert found.schema.field(column).type == given.schema.field(column).type
        assert texts_in(found.column(column).combine_chunks()) == texts_in(given.column(column))
    assert list(block.errors) == [1]
    assert block.errors[1].message == "record 8 failed in run 'first': rejected: it is bad"


def test_columns_and_members_of_structs_feed_the_model_as_they_are() -> None:
    kind = pa.struct([("label", pa.string()), ("score", pa.float32())])
    predicted = pa.array([("a", 0.1), None, ("b", NAN)], kind)
    block = block_of(
        results(predicted, n=COPIED["uint64"]),
        fed=("n", "prediction.score"),
        copied=("prediction.label",),
    )
    assert isinstance(block.records, ArrowRecords)
    assert block.records.table.schema.types == [pa.uint64(), pa.float32()]
    assert (
        str(block.records.table.column("prediction.score").to_pylist())
        == "[0.10000000149011612, None, nan]"
    )
    assert table_in(block).to_pydict() == {"prediction.label": ["a", None, "b"]}


def test_what_is_within_json_feeds_the_model_and_is_copied_with_the_type_of_its_values() -> None:
    texts = pa.array(['{"label":"a","n":123456789012345678.25}', None, '{"label":"b","n":1}'])
    schema = pa.schema(
        [
            ("index", pa.int64()),
            pa.field("prediction", pa.string(), metadata=JSON_TEXT),
            ("error", ERROR_TYPE),
        ]
    )
    table = pa.RecordBatch.from_arrays(results(texts).columns, schema=schema)
    block = block_of(table, fed=("prediction.label",), copied=("prediction.n", "prediction.label"))
    assert block.records.texts[::2] == [b'{"prediction.label":"a"}', b'{"prediction.label":"b"}']  # type: ignore[union-attr]
    assert copied_texts(block) == [
        b'"prediction.n":123456789012345678.25,"prediction.label":"a"',
        b"",
        b'"prediction.n":1,"prediction.label":"b"',
    ]
    assert columns_of(block)[1][1].type == pa.string()
    whole = block_of(table, fed=("prediction.label",), copied=("prediction",))
    assert columns_of(whole)[1][0].type == pa.json_()
    assert table_in(whole).column("prediction").to_pylist() == texts.to_pylist()


def test_numbers_of_32_bits_that_feed_a_tensor_are_not_shortened() -> None:
    block = block_of(results(pa.array([[0.1], None, [0.5]], pa.list_(pa.float32(), 1))))
    assert block.records.texts[::2] == [b"[0.10000000149011612]", b"[0.5]"]  # type: ignore[union-attr]


def test_a_name_that_is_no_column_is_an_error_of_each_record() -> None:
    block = block_of(results(pa.array([1.5, None, 2.5])), fed=("label",))
    assert block.errors[0].message.startswith(
        "record 7 of run 'first' has no 'label', which tensors.inputs names"
    )
    with pytest.raises(ValueError, match="the table does not have the columns of results"):
        list(table_rows([pa.record_batch({"index": [1], "label": ["a"]})]))


PREDICTED: dict[str, list[object]] = {
    "decimal(20, 2)": [Decimal("123456789012345678.25"), Decimal("-1.10")],
    "timestamp[ns, Europe/Rome]": [1, -1],
    "time64[ns]": [1, 86_399_999_999_999],
    "duration[us]": [1, -1],
    "binary": [b"\x00\xff", b"A"],
    "float": [0.1, 3.4e38],
    "struct<a: decimal(38, 18), b: binary, c: list<timestamp[us]>>": [
        {"a": Decimal("12345678901234567890.123456789012345678"), "b": b"\xff", "c": [1, None]},
        {"a": None, "b": b"", "c": []},
    ],
}


@pytest.mark.parametrize("name", PREDICTED)
def test_a_prediction_that_is_taken_over_is_the_same(name: str) -> None:
    predicted = pa.array([PREDICTED[name][0], None, PREDICTED[name][1]], parse_type(name))
    given = results(predicted)
    schema = result_schema(
        key=None, copied=[], predicted=predicted.type, types={}, is_flat=False, field=""
    )
    stored = io.BytesIO()
    parquet.write_table(pa.Table.from_batches([given]), stored)
    rows = list(PARQUET.read_results(io.BytesIO(stored.getvalue())))
    out = io.BytesIO()
    writer = PARQUET.writer(out, io.BytesIO(), schema=schema.arrow)
    values = JsonRecords([row.prediction or b"null" for row in rows])
    writer.write(
        Batch(first=7, records=values), Results(values, {1: rows[1].error} if rows[1].error else {})
    )
    writer.close()
    assert (
        PARQUET.read_table(out.getvalue()).column("prediction").combine_chunks().equals(predicted)
    )
