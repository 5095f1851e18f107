"""Texts in one buffer are a sequence like a list of them."""

from hypothesis import given
from hypothesis import strategies as st

from inferrun.plugins import JsonRecords
from inferrun.plugins.joined_texts import JoinedTexts

TEXTS = st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")), min_size=1, max_size=60)
BORDERS = st.tuples(st.integers(0, 61), st.integers(0, 61))


def joined(texts: list[bytes], *, separator: bytes = b"\n") -> JoinedTexts:
    return JoinedTexts(separator.join(texts), len(texts), separator=separator)


@given(TEXTS, st.lists(BORDERS, max_size=6))
def test_parts_and_parts_of_parts_are_those_of_a_list(texts: list[bytes], borders: list[tuple[int, int]]) -> None:
    found = joined(texts)
    for start, stop in borders:
        part, expected = found[start:stop], texts[start:stop]
        assert (list(part), len(part)) == (expected, len(expected))
        if isinstance(part, JoinedTexts):
            assert part.joined == b"\n".join(expected)
            assert part.size == sum(map(len, expected))
            assert list(part[1:3]) == expected[1:3]
            assert part[0] == expected[0]


@given(TEXTS, st.integers(1, 70))
def test_texts_that_are_taken_from_the_front_are_complete_and_in_order(texts: list[bytes], count: int) -> None:
    found = joined(texts)
    assert [text for at in range(0, len(texts), count) for text in found[at : at + count]] == texts


def test_the_position_is_found_among_texts_of_very_different_lengths() -> None:
    texts = [b"x" * (100_000 if at % 50 == 3 else at % 3) for at in range(500)]
    assert all(list(joined(texts)[at:-1][:2]) == texts[at:-1][:2] for at in range(500))


@given(TEXTS)
def test_each_text_is_found_by_its_position(texts: list[bytes]) -> None:
    found = joined(texts)
    assert found[0] == texts[0]
    assert [found[at] for at in range(-len(texts), len(texts))] == texts * 2
    assert list(found) == texts
    assert (list(found[::2]), list(found[:0])) == (texts[::2], [])


@given(TEXTS, TEXTS)
def test_records_are_joined_and_measured_like_those_of_a_list(before: list[bytes], after: list[bytes]) -> None:
    plain = JsonRecords(before).join([JsonRecords(after)])
    for other in (JsonRecords(joined(after)), JsonRecords(after)):
        found = JsonRecords(joined(before)).join([other])
        assert found == plain
        assert found.nbytes == plain.nbytes
    assert isinstance(JsonRecords(joined(before)).join([JsonRecords(joined(after))]).texts, JoinedTexts)


def test_records_with_different_separators_are_joined() -> None:
    found = JsonRecords(joined([b"1", b"2"], separator=b",")).join([JsonRecords(joined([b"3"]))])
    assert found.texts == [b"1", b"2", b"3"]


def test_no_texts_are_an_empty_sequence() -> None:
    assert (list(JoinedTexts(b"", 0)), JoinedTexts(b"", 0).size) == ([], 0)
