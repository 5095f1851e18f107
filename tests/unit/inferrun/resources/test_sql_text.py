"""What parts an SQL query consists of, as PostgreSQL reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.resources.sql_text import PartKind, parts_of

CODE = PartKind.CODE
LITERAL = PartKind.LITERAL
DOLLAR = PartKind.DOLLAR_LITERAL
NAME = PartKind.NAME
COMMENT = PartKind.COMMENT


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("select 1", [(CODE, "select 1")]),
        ("a = 'it''s' or b", [(CODE, "a = "), (LITERAL, "'it''s'"), (CODE, " or b")]),
        (r"E'\'' = 'a\'", [(LITERAL, r"E'\''"), (CODE, " = "), (LITERAL, r"'a\'")]),
        (r"type'\' b", [(CODE, "type"), (LITERAL, r"'\'"), (CODE, " b")]),
        ('"a""b$(x)" c', [(NAME, '"a""b$(x)"'), (CODE, " c")]),
        ("a--'b\nc", [(CODE, "a"), (COMMENT, "--'b\n"), (CODE, "c")]),
        ("a--'b\rc", [(CODE, "a"), (COMMENT, "--'b\r"), (CODE, "c")]),
        ("/* a /* b */ ' */ c", [(COMMENT, "/* a /* b */ ' */"), (CODE, " c")]),
        ("$$ a ' $$ b", [(DOLLAR, "$$ a ' $$"), (CODE, " b")]),
        ("$q$ $$ $q$ b", [(DOLLAR, "$q$ $$ $q$"), (CODE, " b")]),
        ("a$b$c = $1$d", [(CODE, "a$b$c = $1$d")]),
        (
            "a $(interval.start:%H'--%M) b",
            [(CODE, "a "), (CODE, "$(interval.start:%H'--%M)"), (CODE, " b")],
        ),
        ("a 'open", [(CODE, "a "), (LITERAL, "'open")]),
        ("a /* open /* */", [(CODE, "a "), (COMMENT, "/* open /* */")]),
        ("a $q$ open $$", [(CODE, "a "), (DOLLAR, "$q$ open $$")]),
    ],
)
def test_a_query_is_divided_as_postgresql_reads_it(
    query: str, wanted: list[tuple[PartKind, str]]
) -> None:
    assert list(parts_of(query)) == wanted


@given(st.text(alphabet="aeE'\"$(){}-/*\\\n q1.", max_size=60))
def test_the_parts_together_are_the_query(query: str) -> None:
    assert "".join(part for _, part in parts_of(query)) == query
