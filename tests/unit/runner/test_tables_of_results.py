"""Results in formats with columns: what is written can be read by other programs, and by a run that
retries."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import orjson
import pyarrow
import pytest
from pyarrow import parquet

from inferrun.formats.arrow.format import ARROW
from inferrun.formats.csv.format import CSV
from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.parquet.format import PARQUET
from inferrun.formats.result_schema import ERROR_TYPE, parse_type, result_schema
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Block,
    FormatAbilities,
    Json,
    JsonRecords,
    RecordError,
    Records,
    Results,
    ResultWriter,
    StoredResult,
)
from inferrun_runner.program.result_types import columns_of, type_of

REJECTED = RecordError("rejected", "it is bad", attempts=2)


class Written(Protocol):
    """A format of results."""

    results_suffix: str

    @property
    def abilities(self) -> FormatAbilities:
        """Whether its results are typed."""

    def writer(
        self, out: io.BytesIO, errors: io.BytesIO, *, schema: pyarrow.Schema | None = None
    ) -> ResultWriter:
        """Return a writer."""

    def read_results(
        self, results: BinaryIO, errors: BinaryIO | None = None
    ) -> Iterator[StoredResult]:
        """Yield the rows."""


FORMATS: tuple[Written, ...] = (PARQUET, ARROW, CSV)
READABLE: tuple[Written, ...] = (*FORMATS, JSONL)


def texts(*values: object) -> Records:
    return JsonRecords([json.dumps(value).encode() for value in values])


def schema_of(batch: dict[str, Any], predicted: str) -> pyarrow.Schema:
    """The columns of results whose first records are a batch."""
    records = texts(*[0] * len(batch.get("ids") or [0]))
    key, copied = columns_of(Block(records, **batch))
    kind = parse_type(predicted)
    return result_schema(
        key=key, copied=copied, predicted=kind, types={}, is_flat=False, field="output.file"
    ).arrow


def written(
    form: Written, *results: Results, predicted: str = "json", **batch: Any
) -> tuple[bytes, bytes]:
    out, errors = io.BytesIO(), io.BytesIO()
    is_typed = form.abilities.has_typed_results
    writer = form.writer(out, errors, schema=schema_of(batch, predicted) if is_typed else None)
    first = 7
    for one in results:
        writer.write(Batch(first=first, records=one.values, **batch), one)
        first += len(one)
    counts = writer.close()
    assert counts.total == first - 7
    return out.getvalue(), errors.getvalue()


def predictions(form: Written, content: bytes) -> dict[int, bytes]:
    return {
        row.index: row.prediction
        for row in form.read_results(io.BytesIO(content))
        if row.error is None
    }


for_each_form = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.results_suffix)


@pytest.mark.parametrize("ids", [(2**64 - 1, 0, None), (5, 2**63), (-1, 2**63 - 1)])
@for_each_form
def test_ids_of_64_bits_without_a_sign_are_kept_although_no_column_is_copied(
    form: Written, ids: tuple[int | None, ...]
) -> None:
    content, _ = written(form, Results(texts(*range(len(ids)))), ids=ids)
    rows = list(form.read_results(io.BytesIO(content)))
    assert [(row.custom_id, row.error) for row in rows] == [(one, None) for one in ids]


@for_each_form
@pytest.mark.parametrize(
    "values",
    [
        (1, -2, 2**63 - 1),
        (0.5, 1e-300, -0.1),
        ([1.5, 2.0], [], [3.25]),
        ([[1, 2], [3]], [[4]]),
        ("a", "", "1.5", "null", '"', "two\nlines, and a comma"),
        (True, False),
        ({"label": "x", "scores": [0.25]}, {"label": "y", "scores": []}),
        (1, "a", [2], {"b": None}, True),
        ({"a": 1}, {"b": 2}, {}),
        ({}, {}),
        (2**64, 1.5),
        ([1, "a"], [None]),
        (1, 0.5, 2),
        (2**53 + 1, 0.5),
        ([], [1], [0.5]),
        (True, 1),
        ("a", 1),
        ("{}", {}),
        ([{"a": 1}], [{"b": 2}]),
        ({"b64": "/wA="}, "text", {"b64": "gA=="}),
        ([{"b64": "/wA="}, "a"], ["b", "c"]),
        ({"raw": {"b64": "/wA="}, "n": 1}, {"raw": {"b64": "gA=="}, "n": 2}),
        ({"raw": {"b64": "/wA="}}, {"raw": "text"}),
        ({"b64": "dGV4dA=="}, {"b64": "/wA="}),
        ({"b64": "/wA="}, 1.5),
    ],
)
@pytest.mark.parametrize("rows", [1, 16_384])
def test_predictions_can_be_read_again(
    form: Written, values: tuple[object, ...], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferrun.formats.table_results.PIECE_BYTES", rows)
    content, errors = written(form, *(Results(texts(value)) for value in values))
    found = predictions(form, content)
    assert {index: json.loads(text) for index, text in found.items()} == dict(enumerate(values, 7))
    assert errors == b""


def test_bytes_that_are_no_text_are_a_column_of_bytes() -> None:
    cases: tuple[tuple[Json, Json, list[object], str], ...] = (
        ({"b64": "/wA="}, "text", [b"\xff\x00", b"text"], "binary"),
        ([{"b64": "/wA="}, "a"], ["text"], [[b"\xff\x00", b"a"], [b"text"]], "list<binary>"),
    )
    for value, other, found, kind in cases:
        assert type_of([value, other]) == parse_type(kind)
        content, _ = written(PARQUET, Results(texts(value, other)), predicted=kind)
        assert (
            parquet.read_table(pyarrow.BufferReader(content)).column("prediction").to_pylist()
            == found
        )


@pytest.mark.parametrize("form", READABLE, ids=lambda form: form.results_suffix)
def test_results_can_be_read_again_with_ids_columns_and_errors(form: Written) -> None:
    results = Results(texts("a", None, [1.5]), {1: REJECTED})
    copied = [b'"n":1,"city":"Rome"', b'"n":null,"city":""', b'"n":{"a":[1]},"city":"1"']
    content, errors = written(
        form,
        results,
        ids=["a", 5, "5"] if form is not PARQUET else ["a", "b", "5"],
        copied=JsonRecords(copied),
    )
    rows = list(form.read_results(io.BytesIO(content), io.BytesIO(errors)))
    assert [(row.index, row.prediction, row.error) for row in rows] == [
        (7, b'"a"', None),
        (8, b"", REJECTED),
        (9, b"[1.5]", None),
    ]
    assert [str(row.custom_id) for row in rows][::2] == ["a", "5"]
    assert [orjson.loads(b"{%b}" % row.copied) for row in rows] == [
        orjson.loads(b"{%b}" % one) for one in copied
    ]


def test_pieces_of_a_csv_file_may_have_different_columns() -> None:
    out, form = io.BytesIO(), CSV
    writer = form.writer(out, io.BytesIO())
    for first, copied in enumerate((b"", b'"a":1', b'"b":"x, y"')):
        one = Results(texts(first + 0.5))
        writer.write(
            Batch(
                first=first, records=one.values, copied=JsonRecords([copied]) if copied else None
            ),
            one,
        )
    writer.close()
    assert predictions(form, out.getvalue()) == {0: b"0.5", 1: b"1.5", 2: b"2.5"}
    assert out.getvalue().splitlines()[0] == b"index,a,b,prediction,error"


@for_each_form
@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"ARROW1\0\0", b"a,b\n1,2\n", b"index,prediction,error\n1"]
)
def test_other_files_are_not_taken_for_results(form: Written, content: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        predictions(form, content)


def test_csv_has_a_header_and_a_line_per_record() -> None:
    results = Results(texts([0.5, 1.0], "a, b"), {})
    content, _ = written(
        CSV, results, ids=["a", 5], copied=JsonRecords([b'"city":"Rome"', b'"n":2'])
    )
    assert content.decode().splitlines()[0] == "index,custom_id,city,n,prediction,error"
    assert list(csv.reader(io.StringIO(content.decode())))[1:] == [
        ["7", "a", "Rome", "", "[0.5,1.0]", ""],
        ["8", "5", "", "2", "a, b", ""],
    ]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pyarrow.decimal128(6, 2), Decimal("12.50"), b'"12.50"'),
        (pyarrow.list_(pyarrow.decimal128(6, 2)), [Decimal("1.00")], b'["1.00"]'),
        (pyarrow.duration("us"), timedelta(seconds=1), b'"PT1S"'),
    ],
    ids=str,
)
def test_a_copied_value_that_json_does_not_have_is_read_as_text(
    kind: pyarrow.DataType, value: object, text: bytes
) -> None:
    columns = {
        "index": pyarrow.array([0]),
        "copied": pyarrow.array([value], kind),
        "prediction": pyarrow.array([1.5]),
        "error": pyarrow.array([None], ERROR_TYPE),
    }
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), content)
    content.seek(0)
    (row,) = PARQUET.read_results(content)
    assert row.copied == b'"copied":' + text


@pytest.mark.parametrize("form", [JSONL, CSV], ids=lambda form: form.results_suffix)
def test_a_copied_value_that_has_no_text_is_an_error_of_its_record(form: Written) -> None:
    days = pyarrow.record_batch({"day": pyarrow.array([0, 10**8], pyarrow.date32())})
    content, errors = written(form, Results(texts(1, 2)), copied=ArrowRecords(days))
    rows = list(form.read_results(io.BytesIO(content)))
    assert [(row.copied, row.prediction) for row in rows] == [
        (b'"day":"1970-01-01"', b"1"),
        (b'"day":null', b""),
    ]
    assert rows[1].error is not None
    assert (rows[1].error.code, len(errors.splitlines())) == ("invalid_input", 1)


@pytest.mark.parametrize("form", READABLE, ids=lambda form: form.results_suffix)
def test_numbers_keep_their_texts_in_results_that_are_read_again(form: Written) -> None:
    copied = [b'"n":123456789012345678.25,"o":{"a": [1.000000000000000001]}', b'"n":0.1,"o":1']
    content, _ = written(form, Results(texts(1, 2)), copied=JsonRecords(copied))
    found = [row.copied.replace(b" ", b"") for row in form.read_results(io.BytesIO(content))]
    assert found == [one.replace(b" ", b"") for one in copied]


def test_a_number_that_a_column_would_round_is_an_error_of_its_record() -> None:
    copied = JsonRecords([b'"n":0.1', b'"n":123456789012345678.25'])
    schema = schema_of({"copied": copied.part(0, 1)}, "int64")
    out = io.BytesIO()
    writer = PARQUET.writer(out, io.BytesIO(), schema=schema)
    records = texts(1, 2)
    writer.write(Batch(first=0, records=records, copied=copied), Results(records))
    counts = writer.close()
    assert (counts.completed, counts.failed) == (1, 1)
    assert PARQUET.read_table(out.getvalue()).column("n").to_pylist() == [0.1, None]


@for_each_form
@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array(["a", "b", "a", None]),
        pyarrow.array(["a", "b", "a", None]).dictionary_encode(),
        pyarrow.array(["a", "b", "a", None], pyarrow.string_view()),
        pyarrow.array([[1], [], None, [2, 3]]),
        pyarrow.array([0, None, 2, 10**8], pyarrow.date32()),
    ],
    ids=lambda column: str(column.type)[:10],
)
def test_batches_of_one_record_are_written_as_one_of_many(
    form: Written, column: pyarrow.Array
) -> None:
    table = pyarrow.record_batch({"c": column})
    predicted = pyarrow.record_batch({"prediction": pyarrow.array([1, 2, None, 4])})
    contents = []
    for size in (1, 4):
        out, errors = io.BytesIO(), io.BytesIO()
        schema = schema_of({"copied": ArrowRecords(table)}, "int64")
        writer = form.writer(out, errors, schema=schema)
        for first in range(0, 4, size):
            values = ArrowRecords(predicted.slice(first, size))
            copied = ArrowRecords(table.slice(first, size))
            batch = Batch(first=first, records=values, copied=copied)
            writer.write(batch, Results(values))
        writer.close()
        contents.append(list(form.read_results(io.BytesIO(out.getvalue()), errors)))
    assert contents[0] == contents[1]
