"""The results of a chunk as JSON lines, which are written one by one and read again: see
`inferrun.formats.jsonl.format`."""

import itertools
import shutil
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import orjson

from inferrun.formats.exact_json import exact_value
from inferrun.formats.json_text import error_of, error_text, text_of, texts_of
from inferrun.formats.record_texts import copied_members, json_texts
from inferrun.plugins import (
    Batch,
    CustomId,
    InputFile,
    RecordError,
    ResultCounts,
    Results,
    StoredResult,
)

SUFFIX: Final = ".jsonl"

_LINE = b'{"index":%d,"prediction":%b}\n'
_LINE_WITH_ID = b'{"index":%d,"custom_id":%b,"prediction":%b}\n'


class JsonlWriter:
    """Writes one line per result."""

    def __init__(self, out: BinaryIO, errors: BinaryIO) -> None:
        self._out = out
        self._errors = errors
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the lines of a batch."""
        if not results.errors and batch.copied is None and None not in batch.ids:
            indexes, texts = itertools.count(batch.first), json_texts(results.values)
            if batch.ids:
                lines = map(
                    _LINE_WITH_ID.__mod__, zip(indexes, texts_of(batch.ids), texts, strict=False)
                )
            else:
                lines = map(_LINE.__mod__, zip(indexes, texts, strict=False))
            self._out.write(b"".join(lines))
            self._counts += results.counts
            return
        members, errors = copied_members(batch)
        errors = {**errors, **results.errors}
        self._counts += ResultCounts(len(batch) - len(errors), len(errors))
        for at, text in enumerate(json_texts(results.values)):
            custom_id = batch.ids[at] if batch.ids else None
            copied = members[at] if members else b""
            if error := errors.get(at):
                line = error_line(batch.first + at, custom_id, copied, error)
                self._out.write(line)
                self._errors.write(line)
            else:
                self._out.write(result_line(batch.first + at, custom_id, copied, text))

    def close(self) -> ResultCounts:
        """Return the numbers of lines."""
        return self._counts


def result_line(index: int, custom_id: CustomId, copied: bytes, prediction: bytes) -> bytes:
    """Return the line of a prediction; `copied` are members of the object, or empty."""
    return b'%b,"prediction":%b}\n' % (_head(index, custom_id, copied), prediction)


def error_line(index: int, custom_id: CustomId, copied: bytes, error: RecordError) -> bytes:
    """Return the line of a failed record; `copied` are members of the object, or empty."""
    return b'%b,"error":%b}\n' % (_head(index, custom_id, copied), error_text(error))


def _head(index: int, custom_id: CustomId, copied: bytes) -> bytes:
    head = b'{"index":%d' % index
    if custom_id is not None:
        head += b',"custom_id":%b' % orjson.dumps(custom_id)
    return b"%b,%b" % (head, copied) if copied else head


class JoinableLines:
    """Result files that are joined as they are."""

    def join_files(self, files: Sequence[InputFile], out: BinaryIO, schema: object = None) -> None:  # noqa: ARG002  the seam's
        """Write the lines of all files to one."""
        for file in files:
            with file.open() as content:
                shutil.copyfileobj(content, out)


class JsonlResults(JoinableLines):
    """Writes one line per result, and reads it again."""

    results_suffix = SUFFIX

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: object = None) -> JsonlWriter:  # noqa: ARG002  the seam's
        """Return a writer of one line per result."""
        return JsonlWriter(out, errors)

    def read_results(
        self,
        results: BinaryIO,
        errors: BinaryIO | None = None,  # noqa: ARG002  the seam's
    ) -> Iterator[StoredResult]:
        """Yield the results in a file, with predictions as they were written."""
        return map(_result, filter(bytes.strip, results))


_PREDICTION = b',"prediction":'


def _result(line: bytes) -> StoredResult:
    try:
        value = exact_value(line)
    except ValueError:
        value = None
    is_result = (
        isinstance(value, dict)
        and type(value.get("index")) is int
        and not {"prediction", "error"}.isdisjoint(value)
    )
    if not is_result:
        raise ValueError("a line is not a result")
    index, custom_id = value.pop("index"), value.pop("custom_id", None)
    error, prediction = value.pop("error", None), value.pop("prediction", None)
    copied = text_of(value)[1:-1]
    if error is not None:
        return StoredResult(index, custom_id, copied, error=error_of(error))
    # As it was written: a quote in an id is escaped, so the first member of that name is the
    # prediction. Only a column that was copied may contain an object, in which there may be a
    # member of that name.
    head, _, text = line.rstrip().partition(_PREDICTION)
    is_first = head.count(b"{") == 1 and text.endswith(b"}")
    return StoredResult(index, custom_id, copied, text[:-1] if is_first else text_of(prediction))
