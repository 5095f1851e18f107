"""Tables of numbers."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.csv.format import CSV
from inferrun.formats.record_texts import copied_texts
from inferrun.plugins import Chunk, ColumnSelection, InputError, Limits, RecordError
from inferrun_runner.stores.file.local_files import MemoryFile
from tests.unit.runner.batches import chunks_of, decoded


def read(text: str | bytes, *, chunk_bytes: int = 1 << 20) -> tuple[list[object], list[object]]:
    """Read a file through its plan: rows and ids."""
    file = MemoryFile("a.csv", text.encode() if isinstance(text, str) else text)
    rows: list[object] = []
    ids: list[object] = []
    for chunk in chunks_of(CSV, file, chunk_bytes=chunk_bytes):
        blocks = list(CSV.read(file, chunk, limits=Limits()))
        assert sum(len(block.records) for block in blocks) == chunk.records
        for block in blocks:
            rows += decoded(block)
            ids += block.ids
    return rows, ids


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2.5\n-3,4e2\n", [[1, 2.5], [-3, 400.0]]),
        ("a,b\r\n1,2\r\n", [[1, 2]]),
        ("\ufeffa,b\n1,2", [[1, 2]]),
        ("\n\na,b\n\n1,2\n\n", [[1, 2]]),
        ("a\n1\n2\n", [[1], [2]]),
        ("a,b\n,2\n3,\n", [[None, 2], [3, None]]),
        ("a,b\nNaN,2\n", [[None, 2]]),
        ("a,b\n.5,+1\n007,1.\n", [[0.5, 1], [7, 1.0]]),
        ('"a","b c"\n"1", 2 \n', [[1, 2]]),
        ("a,b\n", []),
        ("", []),
    ],
)
def test_each_line_after_the_first_is_a_record(text: str, rows: list[object]) -> None:
    assert read(text) == (rows, [])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_keeps_the_blanks_at_its_ends(end: str) -> None:
    file = MemoryFile("a.csv", f" a ,x,b{end} 1 ,2,\tlast  {end}{end}  first,3,{end}".encode())
    for columns in (
        ColumnSelection(copied=("a", "b")),
        ColumnSelection(fed=("x",), copies_all=True),
    ):
        form = CSV.with_columns(columns)
        (chunk,) = chunks_of(form, file, chunk_bytes=1 << 20)
        (block,) = form.read(file, chunk, limits=Limits())
        copied = [orjson.loads(b"{%b}" % one) for one in copied_texts(block)]
        assert [one["a"] for one in copied] == [" 1 ", "  first"]
        assert [one["b"] for one in copied] == ["\tlast  ", None]
    assert read(f"x,custom_id{end}1, a {end}2,b{end}")[1] == [" a ", "b"]


def test_a_column_of_ids_is_copied() -> None:
    rows, ids = read('x,custom_id,y\n1,"a,1",2\n3,007,4\n')
    assert rows == [[1, 2], [3, 4]]
    assert ids == ["a,1", "007"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n1,"2\n', "a.csv line 2 begins a value in quotes that does not end"),
        (
            'a,b\n1,"2"3\n',
            "a.csv line 2 is not valid CSV: the quote that ends a value is not followed",
        ),
        (b'a,b\n1,"\xff\n', "a.csv line 2 begins a value in quotes that does not end"),
        (b"a,\xff\n1,2\n", "a.csv line 1 is not in UTF-8; set csv.encoding"),
        ("1,2\n3,4\n", "a.csv line 1: the first line must name the columns, and has only numbers"),
        ("a,a\n3,4\n", "a.csv line 1: the first line must name the columns, each once"),
        ("custom_id\n3\n", "a.csv line 1: the first line must name the columns, each once"),
        ("sep=,\na,b\n1,2\n", "a.csv line 1 is a line for Excel that names the delimiter"),
        ("sep=;\na;b\n1;2\n", "a.csv line 1 is a line for Excel that names the delimiter"),
    ],
)
def test_an_invalid_table_is_reported_with_its_line_and_no_content(
    text: str | bytes, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(text)
    assert str(raised.value).startswith(message)
    assert "c4nary" not in str(raised.value)
    assert not raised.value.is_retryable


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1", "a.csv line 4 has 1 values, the file has 2 columns"),
        (b"1,2,3", "a.csv line 4 has 3 values, the file has 2 columns"),
        (b"1,c4nary", "a.csv line 4 has no number in column 'b'"),
        (b"1,inf", "a.csv line 4 has no number in column 'b'"),
        (b"1,[2]", "a.csv line 4 has no number in column 'b'"),
        (b"1,true", "a.csv line 4 has no number in column 'b'"),
        (b"1,\xff", "a.csv line 4 is not in UTF-8"),
    ],
)
def test_a_line_that_is_not_valid_costs_one_record(line: bytes, message: str) -> None:
    content = b"a,b\n1,2\n\n%b\n3,4\n" % line
    (block,) = CSV.read(
        MemoryFile("a.csv", content), Chunk(0, 0, 0, len(content), 0, 3), limits=Limits()
    )
    rows = decoded(block)
    assert (rows[0], rows[2]) == ([1, 2], [3, 4])
    assert block.errors == {1: RecordError("invalid_input", message)}


def test_a_line_that_is_not_valid_keeps_its_id() -> None:
    content = b'custom_id,a\nx,1\n"y,",one\nz,3\n'
    (block,) = CSV.read(
        MemoryFile("a.csv", content), Chunk(0, 0, 0, len(content), 0, 3), limits=Limits()
    )
    assert block.ids == ["x", "y,", "z"]
    assert set(block.errors) == {1}


@given(
    rows=st.lists(
        st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=2, max_size=2), max_size=40
    ),
    chunk_bytes=st.integers(1, 60),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_every_division_yields_every_record_once(
    rows: list[list[object]], chunk_bytes: int, end: str
) -> None:
    lines = [
        "first,second",
        *(",".join("" if value is None else str(value) for value in row) for row in rows),
    ]
    found, _ = read("".join(line + end for line in lines), chunk_bytes=chunk_bytes)
    assert found == rows


def test_an_empty_text_is_one_for_the_model_and_nothing_is_null() -> None:
    form = CSV.with_columns(ColumnSelection(fed=("t",), copied=("t",)))
    file = MemoryFile("a.csv", b't,x\n"",1\n,2\n')
    (chunk,) = chunks_of(form, file, chunk_bytes=1 << 20)
    (block,) = form.read(file, chunk, limits=Limits())
    assert decoded(block) == [{"t": ""}, {"t": None}]
    assert list(copied_texts(block)) == [b'"t":""', b'"t":null']
