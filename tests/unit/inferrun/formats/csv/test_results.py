"""Results as CSV: other readers find the texts as they were, and ours finds the values."""

import csv
import io
from decimal import Decimal

import orjson
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.csv.format import CSV
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Json,
    JsonRecords,
    ResultCounts,
    Results,
    StoredResult,
)
from inferrun_runner.stores.file.local_files import MemoryFile

LOOK_LIKE_JSON = (
    "1",
    "-0.50",
    "null",
    "true",
    "",
    '"1"',
    '"',
    "[1]",
    '{"a": 1}',
    " [1]",
    "{}",
    "1e400",
    "NaN",
    "a\0b",
    "x,y",
)
TEXTS = st.sampled_from(LOOK_LIKE_JSON) | st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.just(1.5) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=3,
)


Rows = list[tuple[Json, dict[str, Json]]]
"""Predictions, and what is copied beside them."""


def written(*pieces: Rows, ids: bool = False) -> bytes:
    """The file of predictions and what is copied beside them."""
    out, first = io.BytesIO(), 0
    writer = CSV.writer(out, io.BytesIO())
    for rows in pieces:
        values = JsonRecords([orjson.dumps(prediction) for prediction, _ in rows])
        members = JsonRecords([orjson.dumps(copied)[1:-1] for _, copied in rows])
        custom_ids = [str(at) for at in range(len(rows))] if ids else ()
        writer.write(
            Batch(first=first, records=values, ids=custom_ids, copied=members), Results(values)
        )
        first += len(rows)
    writer.close()
    return out.getvalue()


def read(content: bytes) -> list[StoredResult]:
    return list(CSV.read_results(io.BytesIO(content)))


def values(content: bytes, *names: str) -> Rows:
    """What is read again; a column that a row does not have is null."""
    rows = [
        (orjson.loads(row.prediction), orjson.loads(b"{%b}" % row.copied)) for row in read(content)
    ]
    return [(prediction, {name: copied.get(name) for name in names}) for prediction, copied in rows]


def filled(rows: Rows) -> Rows:
    return [(prediction, {name: copied.get(name) for name in "tu"}) for prediction, copied in rows]


ROWS = st.lists(
    st.tuples(VALUES, st.dictionaries(st.sampled_from("tu"), VALUES | TEXTS, min_size=1)),
    min_size=1,
    max_size=4,
)


@given(ROWS, ROWS)
def test_each_value_is_read_again(first: Rows, second: Rows) -> None:
    assert values(written(first, second), *"tu") == filled([*first, *second])
    out = io.BytesIO()
    CSV.join_files([MemoryFile("a", written(first)), MemoryFile("b", written(second))], out)
    assert values(out.getvalue(), *"tu") == filled([*first, *second])


@given(st.lists(TEXTS.filter(lambda one: "\0" not in one), min_size=1, max_size=4))
def test_another_reader_finds_each_text_of_a_column_of_texts(texts: list[str]) -> None:
    content = written([(text, {"t": text}) for text in texts])
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert [(row["t"], row["prediction"]) for row in rows] == [(text, text) for text in texts]


def test_numbers_are_told_from_texts_by_quotes_and_columns_of_texts_by_their_names() -> None:
    rows: Rows = [
        (1, {"a": "1", "b": "[1]", "c": "[1]"}),
        ([1], {"a": 1, "b": None, "c": [1]}),
    ]
    assert written(rows, ids=True).decode().splitlines() == [
        'index,custom_id,a,"b",c,prediction,error',
        '0,"0","1","[1]","""[1]""",1,',
        '1,"1",1,,[1],[1],',
    ]
    assert values(written(rows), *"abc") == rows
    assert [row.custom_id for row in read(written(rows, ids=True))] == ["0", "1"]


@pytest.mark.parametrize("text", ["[1]", "[1,2]"])
def test_files_in_which_a_column_has_texts_only_or_not_can_be_joined(text: str) -> None:
    texts: Rows = [("p", {"t": text})]
    plain: Rows = [("p", {"t": "x"})]
    mixed: Rows = [(1, {"t": 1})]
    for others, name in ((plain, '"t"'), (mixed, "t")):
        out = io.BytesIO()
        CSV.join_files(
            [MemoryFile(str(at), written(rows)) for at, rows in enumerate((texts, others, texts))],
            out,
        )
        assert out.getvalue().startswith(b"index,%b,prediction,error\n" % name.encode())
        assert values(out.getvalue(), "t") == [*texts, *others, *texts]


@pytest.mark.parametrize("name", ["a,b", ""])
def test_a_name_that_needs_quotes_says_nothing_about_its_values(name: str) -> None:
    rows: Rows = [("p", {name: "[1]"}), ("p", {name: [1]})]
    assert values(written(rows[:1]), name) == rows[:1]
    assert values(written(rows), name) == rows
    assert values(written(rows[:1], rows[1:]), name) == rows


def test_bytes_and_decimals_have_one_form_in_a_column() -> None:
    table = pyarrow.record_batch(
        {
            "raw": pyarrow.array([b"\0a", b"\xff", None]),
            "few": pyarrow.array([b"ab", None, b"cd"], pyarrow.binary(2)).dictionary_encode(),
            "price": pyarrow.array([Decimal("123.45"), Decimal("-1.00"), None]),
        }
    )
    out, predictions = io.BytesIO(), JsonRecords([b"1"] * 3)
    writer = CSV.writer(out, io.BytesIO())
    writer.write(
        Batch(first=0, records=predictions, copied=ArrowRecords(table)), Results(predictions)
    )
    writer.close()
    rows = list(csv.DictReader(io.StringIO(out.getvalue().decode())))
    assert [row["raw"] for row in rows] == ['{"b64":"AGE="}', '{"b64":"/w=="}', ""]
    assert [row["few"] for row in rows] == ['{"b64":"YWI="}', "", '{"b64":"Y2Q="}']
    assert [row["price"] for row in rows] == ["123.45", "-1.00", ""]
    copied = values(out.getvalue(), "raw", "few", "price")[0][1]
    assert copied == {"raw": {"b64": "AGE="}, "few": {"b64": "YWI="}, "price": "123.45"}


def test_a_value_that_cannot_be_written_is_an_error_of_its_record() -> None:
    """DuckDB 2.0.1 writes an infinite date as the last day of 32 bits, fastparquet 2026.9.0 two
    days as a time of day."""
    table = pyarrow.record_batch(
        {
            "day": pyarrow.array([2**31 - 1, 0, 0], pyarrow.int32()).cast(pyarrow.date32()),
            "took": pyarrow.array([0, 2 * 86_400_000_000, 1], pyarrow.int64()).cast(
                pyarrow.time64("us")
            ),
        }
    )
    out, errors, predictions = io.BytesIO(), io.BytesIO(), JsonRecords([b"1"] * 3)
    writer = CSV.writer(out, errors)
    writer.write(
        Batch(first=0, records=predictions, copied=ArrowRecords(table)), Results(predictions)
    )
    assert writer.close() == ResultCounts(1, 2)
    found = read(out.getvalue())
    assert [one.error.code if one.error else None for one in found] == [
        "invalid_input",
        "invalid_input",
        None,
    ]
    assert errors.getvalue().count(b"\n") == 2


def test_results_of_the_first_version_can_be_read() -> None:
    content = b'index,a,prediction,error\n0,"""1""","""""",\n1,1,"[1,2]",\n2,x,"{""a"":1}",\n'
    assert values(content, "a") == [("", {"a": "1"}), ([1, 2], {"a": 1}), ({"a": 1}, {"a": "x"})]
