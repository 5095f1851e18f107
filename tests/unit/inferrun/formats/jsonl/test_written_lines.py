"""Results without ids and errors are written for a whole batch at once, as they are one by one."""

import io
from collections.abc import Sequence

import orjson
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.json_text import texts_of
from inferrun.formats.jsonl.format import JSONL
from inferrun.plugins import Batch, CustomId, JsonRecords, Results

NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = (
    NUMBERS
    | st.none()
    | st.booleans()
    | st.text(max_size=5)
    | st.sampled_from(["%d", "%", "%%b", "\n", "],["])
)


def written(texts: JsonRecords, *, first: int, ids: Sequence[CustomId] = ()) -> bytes:
    out, errors = io.BytesIO(), io.BytesIO()
    batch = Batch(first=first, records=JsonRecords([b"[1]"] * len(texts)), ids=ids)
    JSONL.writer(out, errors).write(batch, Results(texts))
    assert errors.getvalue() == b""
    return out.getvalue()


def one_by_one(texts: list[bytes], *, first: int) -> bytes:
    return b"".join(
        b'{"index":%d,"prediction":%b}\n' % (first + at, text) for at, text in enumerate(texts)
    )


@given(
    st.lists(VALUES, min_size=1)
    | st.lists(NUMBERS, min_size=1)
    | st.lists(st.lists(VALUES), min_size=1),
    st.sampled_from([0, 7, 995, 1000, 123_456_789_012]),
)
def test_lines_are_those_of_their_texts(values: list[object], first: int) -> None:
    texts = [orjson.dumps(value) for value in values]
    found = written(JsonRecords(texts_of(values)), first=first)  # type: ignore[arg-type]  # any JSON
    assert found == one_by_one(texts, first=first)


@given(
    st.lists(
        st.tuples(VALUES, st.none() | st.text(max_size=5) | st.integers(0, 1 << 63)), min_size=1
    )
)
def test_lines_with_ids_are_those_of_their_texts(
    pairs: list[tuple[object, str | int | None]],
) -> None:
    texts, ids = [orjson.dumps(value) for value, _ in pairs], [custom_id for _, custom_id in pairs]
    members = [b"" if one is None else b',"custom_id":' + orjson.dumps(one) for one in ids]
    expected = [
        b'{"index":%d%b,"prediction":%b}\n' % (at, member, text)
        for at, (member, text) in enumerate(zip(members, texts, strict=True))
    ]
    assert written(JsonRecords(texts), first=0, ids=ids) == b"".join(expected)
