"""The format `openai`: the input, output and error files of OpenAI's Batch API, one JSON object per
line.

An input line is `{"custom_id": …, "method": "POST", "url": "/v1/chat/completions", "body": {…}}`.
It is passed on as it is: a line that is not a valid request costs one record. An output line is
`{"id": …, "custom_id": …, "response": {"status_code": …, "request_id": …, "body": …}, "error":
null}`. Requests that failed are only in the error file, with what the server responded, or with an
`error` if there was no response. There, each line has another member, `"inferrun": {"index": …,
"code": …, "message": …, "attempts": …}`: OpenAI's members stay as its readers expect them.
"""

import heapq
import re
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from inferrun.formats.json_spans import members_of
from inferrun.formats.json_text import error_of
from inferrun.formats.jsonl.bad_lines import id_of
from inferrun.formats.jsonl.line_ranges import plan_lines, read_lines
from inferrun.formats.jsonl.results import JoinableLines, JsonlWriter
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    ID_COLUMN,
    Batch,
    Block,
    Chunk,
    CustomId,
    FormatAbilities,
    InputFile,
    JsonRecords,
    Limits,
    Piece,
    ReadableResults,
    RecordError,
    Results,
    StoredResult,
)


class OpenAiWriter(JsonlWriter):
    """Writes one line per result, of a failed record to the error file."""

    def write(self, batch: Batch, results: Results) -> None:
        """Append the lines of a batch."""
        self._counts += results.counts
        for at, text in enumerate(json_texts(results.values)):
            error = results.errors.get(at)
            line = _line(batch.first + at, batch.ids[at] if batch.ids else None, text, error)
            (self._errors if error else self._out).write(line)


def _line(index: int, custom_id: CustomId, response: bytes, error: RecordError | None) -> bytes:
    """Format a result. What the server responded explains a failure; the member `error` is set if
    there was no response."""
    head = b'{"id":"batch_req_%012d","custom_id":%b,"response":%b' % (
        index,
        orjson.dumps(custom_id),
        response,
    )
    if error is None:
        return b'%b,"error":null}\n' % head
    described = {"code": error.code, "message": error.message}
    without_response = described if response == b"null" else None
    about = {"index": index, **described, "attempts": error.attempts}
    return b'%b,"error":%b,"inferrun":%b}\n' % (
        head,
        orjson.dumps(without_response),
        orjson.dumps(about),
    )


def _id_of(line: bytes) -> CustomId:
    """Return the id of a request. orjson is fast, and refuses some bodies that are valid."""
    found = id_of(line)
    if found is not None:
        return found
    try:
        return members_of(line.decode()).string(ID_COLUMN)
    except ValueError:
        return None


_ID = re.compile(rb'\{"id":"batch_req_([0-9]{12,})",')


class OpenAi(JoinableLines):
    """Reads requests from and writes responses to JSON lines."""

    suffixes: tuple[str, ...] = (".jsonl",)
    results_suffix = ".jsonl"

    @property
    def abilities(self) -> FormatAbilities:
        """Results are read and joined."""
        return FormatAbilities(
            readable=ReadableResults(self.read_results), join_files=self.join_files
        )

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes."""
        return plan_lines(file, chunk_bytes=chunk_bytes, limits=limits)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the requests that start within the chunk."""
        for lines in read_lines(file, chunk, limits=limits):
            yield Block(JsonRecords(lines.texts), [_id_of(text) for text in lines.texts])

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: object = None) -> OpenAiWriter:  # noqa: ARG002  the seam's
        """Return a writer of one line per result."""
        return OpenAiWriter(out, errors)

    def read_results(
        self, results: BinaryIO, errors: BinaryIO | None = None
    ) -> Iterator[StoredResult]:
        """Yield the responses in an output file, as they were written, and the failed requests in
        an error file."""
        completed, failed = map(_result, results), map(_failure, errors or ())
        return heapq.merge(completed, failed, key=lambda one: one.index)


def _result(line: bytes) -> StoredResult:
    # A quote in an id is escaped, so the first member of that name is the response.
    head, _, value = line.rstrip().partition(b',"response":')
    if (found := _ID.match(line)) is None or not value.endswith(b',"error":null}'):
        raise ValueError("a line is not a response")
    custom_id = orjson.loads(head + b"}").get("custom_id")
    return StoredResult(int(found[1]), custom_id, prediction=value.removesuffix(b',"error":null}'))


def _failure(line: bytes) -> StoredResult:
    value = orjson.loads(line)
    about = value.get("inferrun") if isinstance(value, dict) else None
    if not isinstance(about, dict) or not isinstance(index := about.get("index"), int):
        raise ValueError("a line is not a failed request")  # noqa: TRY004  as above
    return StoredResult(index, value.get("custom_id"), error=error_of(about))


OPENAI = OpenAi()
