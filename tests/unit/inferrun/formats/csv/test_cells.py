"""Quotes, escapes and nulls, as the programs that write them mean them."""

import csv
import io
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.csv.cells import Cell, CsvRecord, CsvSyntax, Quoted, WrongText, marked_records

SPARK = CsvSyntax(escape="\\")
DUMP = CsvSyntax(delimiter="\t", quote="", escape="\\", decodes=True, nulls=frozenset({"\\N"}))
MYSQL = CsvSyntax(escape="\\", decodes=True, nulls=frozenset({"\\N"}))
PLAIN = CsvSyntax()
NULLS = CsvSyntax(nulls=frozenset({"\\N", "NA"}))


def cells(syntax: CsvSyntax, text: str, *, keeps_blank: bool = False) -> list[list[Cell]]:
    """The values of all records."""
    records, lines = syntax.split(text, keeps_blank=keeps_blank)
    assert lines == len(text.split("\n")) - text.endswith("\n")
    return [record.cells for record in records]


@pytest.mark.parametrize(
    ("syntax", "text", "values"),
    [
        # Spark 4.1.1, PostgreSQL 15 with ESCAPE '\', DuckDB 2.0.1: outside quotes a backslash is
        # one.
        (SPARK, r"C:\new,\N,ends\,\\host", [r"C:\new", r"\N", "ends\\", r"\\host"]),
        (SPARK, r'"C:\\new, \"x\"","\"","\\\"","a\nb"', [r'C:\new, "x"', '"', r"\"", r"a\nb"]),
        (SPARK, ',"",x', [None, "", "x"]),
        # PostgreSQL 15, ClickHouse 26.9: the null before escapes are decoded, and letters.
        (DUMP, "\\N\t\\\\N\t\tN", [None, r"\N", "", "N"]),
        (DUMP, r"a\nb\tc\rd\be\ff\vg\\n", ["a\nb\tc\rd\be\ff\vg\\n"]),
        (DUMP, r"\x41\101\303\251\xC3\xA9\x4g\it\'s", ["AAéé\x04git's"]),
        (DUMP, r"\xff", ["\udcff"]),
        (DUMP, r"nul\0a", ["nul\0a"]),
        (DUMP, 'say "hi"\t"', ['say "hi"', '"']),
        # MariaDB 10.11: a backslash and a line break, a carriage return as it is.
        (
            DUMP,
            "two\\\nlines\ttab\\\tx\tcr\rx\tcrlf\r\\\nx",
            ["two\nlines", "tab\tx", "cr\rx", "crlf\r\nx"],
        ),
        (
            MYSQL,
            '\\N,"\\\\N","a \\"q\\" b","two\\\nlines",NULL,""',
            [None, r"\N", 'a "q" b', "two\nlines", "NULL", ""],
        ),
        # Python 3.11 with an escapechar
        (MYSQL, 'C:\\\\new,\\",a\\,b,"x\\", y"', [r"C:\new", '"', "a,b", 'x", y']),
        (
            PLAIN,
            '"a ""q"" b",,"", x,"two\nlines\r\n"',
            ['a "q" b', None, "", " x", "two\nlines\r\n"],
        ),
        (PLAIN, r'"\N",\N,"ends\"', [r"\N", r"\N", "ends\\"]),
        (NULLS, r'"\N",\N,"NA",NA,', [r"\N", None, "NA", None, ""]),
        (CsvSyntax(skips_space=True), 'a, "b, c",  ""', ["a", "b, c", ""]),
        (
            CsvSyntax(delimiter="\x01", quote="", nulls=frozenset({"\\N"})),
            'a"\x01\\N\x01C:\\new',
            ['a"', None, r"C:\new"],
        ),
        # Spark's quote: ""
        (CsvSyntax(quote="\0", delimiter="\t"), '\0two\nlines\0\t"', ["two\nlines", '"']),
    ],
)
def test_each_value_is_what_its_writer_meant(
    syntax: CsvSyntax, text: str, values: list[Cell]
) -> None:
    for end in ("", "\n", "\r\n"):
        assert cells(syntax, text + end) == [values]
    assert cells(syntax, f"{text}\n{text}\r\n") == [values, values]


def test_each_line_of_one_column_is_a_record() -> None:
    """PostgreSQL 15, DuckDB 2.0.1, polars 2.1.0, SQLite 3.40.1 and Go write null, or an empty
    value, so."""
    assert cells(PLAIN, 'plain\n\n""\n\r\nx\n\n', keeps_blank=True) == [
        ["plain"],
        [None],
        [""],
        [None],
        ["x"],
        [None],
    ]
    assert cells(PLAIN, 'plain\n\n"q"\n\nx\n') == [["plain"], ["q"], ["x"]]
    assert cells(DUMP, "a\n\n\\N\n", keeps_blank=True) == [["a"], [""], [None]]


def test_the_line_that_ends_the_text_of_postgresql_is_no_record() -> None:
    assert cells(DUMP, "a\tb\n\\.\n") == [["a", "b"]]
    assert cells(DUMP, "a\n\\.\n", keeps_blank=True) == [["a"]]
    assert cells(DUMP, "a\n\\\\.\n") == [["a"], ["\\."]]


@pytest.mark.parametrize(
    ("syntax", "text", "why"),
    [
        (PLAIN, 'a\n"b"c\n', "the quote that ends a value is not followed"),
        (PLAIN, '"",\n"b"c\n', "the quote that ends a value is not followed"),
        (PLAIN, "a\n1\r2\n", "carriage return"),
        (PLAIN, '"",\n1\r2\n', "carriage return"),
        (SPARK, 'a\nsay \\"hi\\"\n', "csv.escapeUnquoted: true"),
        (DUMP, "a\nnul\\01\n", "before a digit"),
    ],
)
def test_what_could_mean_something_else_is_refused_with_its_line(
    syntax: CsvSyntax, text: str, why: str
) -> None:
    with pytest.raises(WrongText, match=why) as raised:
        syntax.split(text)
    assert raised.value.line == 1


@pytest.mark.parametrize("syntax", [PLAIN, SPARK, MYSQL])
def test_a_record_that_goes_on_after_the_text_is_left(syntax: CsvSyntax) -> None:
    assert syntax.split('a,b\n"c\n,""\nd') == ([CsvRecord(0, ["a", "b"])], 1)


def test_an_escaped_line_break_at_the_end_of_the_text_is_in_the_value() -> None:
    assert DUMP.split("a\nb\\\n") == ([CsvRecord(0, ["a"])], 1)


TEXTS = st.text(st.sampled_from('ab,"\n\r\\N \t')) | st.sampled_from(["", "\\N", "NA"])


@given(
    rows=st.lists(st.lists(TEXTS, min_size=2, max_size=3), min_size=1, max_size=5),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_both_ways_of_reading_find_the_same(rows: list[list[str]], quoting: Literal[0, 1]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n", quoting=quoting).writerows(rows)
    for syntax in (PLAIN, NULLS):
        expected = [
            [None if quoting == csv.QUOTE_MINIMAL and one in syntax.nulls else one for one in row]
            for row in rows
        ]
        assert cells(syntax, out.getvalue()) == expected
        marked, _ = syntax.split(out.getvalue(), marks_quoted=True)
        assert [one.cells for one in marked] == expected


def test_values_in_quotes_are_marked() -> None:
    rows = list(marked_records(io.BytesIO('a,"b"\n1,"1"\n,""\n"é\n",\n'.encode())))
    assert rows == [["a", "b"], ["1", "1"], [None, ""], ["é\n", None]]
    assert [[isinstance(one, Quoted) for one in row] for row in rows] == [[False, True]] * 3 + [
        [True, False]
    ]
    with pytest.raises(ValueError, match="does not end"):
        list(marked_records(io.BytesIO(b'a,"b\n')))
