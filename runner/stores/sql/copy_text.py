"""Results as lines of PostgreSQL's COPY in text format: run, index, custom_id, prediction, error, and copied columns."""

from typing import BinaryIO, Final

from inferrun.formats.json_text import error_text, json_texts
from inferrun.plugins import Batch, ResultCounts, Results

_NULL: Final = b"\\N"
_ESCAPES: Final = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))


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
        ends = [b"\t" + _escaped(b"{%b}" % one) + b"\n" for one in batch.copied] or [b"\n"] * len(batch)
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


def _escaped(text: bytes) -> bytes:
    for raw, escaped in _ESCAPES:
        if raw in text:
            text = text.replace(raw, escaped)
    return text
