"""Results as lines of PostgreSQL's COPY in text format: run, index, custom_id, prediction, error, and copied columns.

Lines are written exactly as the server writes them, so a digest of what is stored is one of what is copied from the table again.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import orjson

from inferrun.formats.json_text import copied_texts, error_of, error_text, json_texts
from inferrun.plugins import Batch, ResultCounts, Results, StoredResult

_NULL: Final = b"\\N"
_ESCAPES: Final = {
    b"\\": b"\\\\",
    b"\b": b"\\b",
    b"\f": b"\\f",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
    b"\v": b"\\v",
}
_RAW: Final = {escaped: raw for raw, escaped in _ESCAPES.items()}
_ESCAPED: Final = re.compile(rb"\\.")


class CopyLines:
    """Writes one line per result."""

    def __init__(self, run: str, out: BinaryIO) -> None:
        self._run = _escaped(run.encode())
        self._out = out
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the results of a batch."""
        ids = batch.ids or [None] * len(batch)
        texts = json_texts(results.values)
        ends = [b"\t" + _escaped(b"{%b}" % one) + b"\n" for one in copied_texts(batch)] or [b"\n"] * len(batch)
        lines: list[bytes] = []
        for at, (custom_id, text, end) in enumerate(zip(ids, texts, ends, strict=True)):
            error = results.errors.get(at)
            name = _NULL
            if custom_id is not None:
                name = _escaped(str(custom_id).replace("\0", "\ufffd").encode(errors="replace"))
            prediction = _NULL if error else _escaped(text)
            reason = _escaped(error_text(error)) if error else _NULL
            lines.append(b"%b\t%d\t%b\t%b\t%b%b" % (self._run, batch.first + at, name, prediction, reason, end))
        self._out.write(b"".join(lines))
        self._counts += results.counts

    def close(self) -> ResultCounts:
        """Return the numbers of results."""
        return self._counts


class CopyText:
    """Reads the lines again."""

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the results in lines. Raises ValueError for another line."""
        for line in results:
            _, index, custom_id, prediction, error, *copied = map(_value, line.rstrip(b"\n").split(b"\t"))
            yield StoredResult(
                int(index or b""),
                None if custom_id is None else custom_id.decode(),
                (copied[0] or b"{}")[1:-1] if copied else b"",
                b"" if prediction is None else prediction,
                None if error is None else error_of(orjson.loads(error)),
            )


def _escaped(text: bytes) -> bytes:
    for raw, escaped in _ESCAPES.items():
        if raw in text:
            text = text.replace(raw, escaped)
    return text


def _value(cell: bytes) -> bytes | None:
    if cell == _NULL:
        return None
    return _ESCAPED.sub(lambda found: _RAW.get(found[0], found[0][1:]), cell) if b"\\" in cell else cell
