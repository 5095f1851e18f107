"""The output store `krateo`: spools the predictions to disk, then posts them to a data handler, whole.

The body is `{job_uid, pod_uid, predictions, …parameters}`, where `predictions` is a JSON array inside a string: the model's
values in the input's order, flat. A handler stores what it gets, so a Pod that dies after the post leaves it there, and the
next one posts again under its own `pod_uid`: at least once.

A body over the limit fails with the numbers, unless the handler declares that it takes chunks: it answers `OPTIONS` on the same
path with the header `Accept-Chunks: predictions`. It then gets several posts with two more keys: `chunk`, the post's number
from 0, and `offset`, the place of the post's first prediction among all. It is only asked when the body is over the limit.

Agreed is an answer 2xx whose body is empty, `ok`, or JSON without an `error`. The Krateo handler answers 200 with a traceback
in the body when its script failed; that, like any other text, is a failed store.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import aiohttp
import orjson

from inferrun.runner_report import Delivery, Output
from runner.errors import OutputError
from runner.http_failures import excerpt
from runner.krateo.endpoint import read_endpoint
from runner.krateo.handler import Handler, open_handler
from runner.krateo.spec import Api, read_spec, refuse_reserved
from runner.retries import UNTOUCHED_STATUSES, Transient, seconds_of, with_retries
from runner.seams import OutputStore, StorageObject, Surroundings
from runner.settings import MIB
from runner.values import Chunk, Counts, Cut, Finished, Json, Memory, Records

_ANSWER_BYTES = 64 * 1024
_PIECE = 256 * 1024
_ROOM_FOR_KEYS = 64
"""Bytes that `chunk` and `offset` take at most."""

_COMMALESS = {int, float, bool, type(None)}

DECLARATION = ("Accept-Chunks", "predictions")


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of the spool that one post carries."""

    start: int
    end: int
    escaped: int
    offset: int


class KrateoOutput:
    """One run's predictions on their way to a data handler."""

    delivery: Delivery = "AtLeastOnce"

    def __init__(self, handler: Handler, members: dict[str, Any], spool: BinaryIO, around: Surroundings) -> None:
        self._handler = handler
        self._head = orjson.dumps(members)[:-1]  # the brace is closed behind the predictions
        self._spool = spool
        self._settings = around.settings
        self._size = 0
        self._escaped = 0

    async def open(self) -> Memory:
        """A data handler remembers nothing that could be asked for."""
        return Memory()

    async def begin(self, cut: Cut) -> Cut:
        """Each Pod predicts the whole input."""
        return cut

    async def write(self, records: Records, predictions: Sequence[Json]) -> None:  # noqa: ARG002  the seam's form
        """Spool one line per value."""
        lines = _lines(flat(predictions))
        with self._spooling():
            self._size += self._spool.write(lines)
        self._escaped += len(escape(lines))

    async def commit(self, chunk: Chunk) -> None:
        """Nothing is durable before the post."""

    async def finish(self, counts: Counts) -> Finished:
        """Post everything."""
        with self._spooling():
            self._spool.flush()
        if self._body_size(self._escaped) <= self._settings.post_limit:
            await self._post(_Part(start=0, end=self._size, escaped=self._escaped, offset=0), extra=b"")
        else:
            await self._post_in_chunks()
        return Finished(
            total=counts.total,
            completed=counts.completed,
            failed=counts.failed,
            output=Output(location=self._handler.url[:1024]),
        )

    @contextmanager
    def _spooling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"the predictions could not be spooled to {self._settings.spool_dir}: {error.strerror}; the Pod's "
                "ephemeral storage must hold them"
            ) from error

    async def _post_in_chunks(self) -> None:
        if not await self._takes_chunks():
            raise OutputError(_too_large(self._body_size(self._escaped), self._settings.post_limit, self._handler.url))
        room = self._settings.post_limit - self._body_size(0) - _ROOM_FOR_KEYS
        for number, part in enumerate(split(self._spool, room=room)):
            await self._post(part, extra=b',"chunk":%d,"offset":%d' % (number, part.offset))

    async def _takes_chunks(self) -> bool:
        name, wanted = DECLARATION
        try:
            async with self._handler.request(verb="OPTIONS", data=None) as answer:
                declared = str(answer.headers.get(name, ""))
                return bool(answer.status < 300 and wanted in declared.replace(",", " ").split())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OutputError(self._handler.layer_of(error)) from error

    def _body_size(self, escaped: int) -> int:
        """The newline after the last value becomes nothing; every other one becomes a comma."""
        return len(self._head) + len(b',"predictions":"[') + max(escaped - 1, 0) + len(b']"}')

    async def _post(self, part: _Part, *, extra: bytes) -> None:
        size = self._body_size(part.escaped) + len(extra)

        async def attempt() -> None:
            headers = {"Content-Length": str(size)}
            try:
                async with self._handler.request(data=self._body(part, extra), headers=headers) as answer:
                    body = await answer.content.read(_ANSWER_BYTES)
            except aiohttp.ClientConnectorError as error:  # the request was never sent
                raise Transient(OutputError(self._handler.layer_of(error))) from error
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise OutputError(
                    f"{self._handler.layer_of(error)}; whether it stored the predictions is not known"
                ) from error
            self._check(answer, body)

        await with_retries(attempt, budget=self._settings.retry_seconds)

    async def _body(self, part: _Part, extra: bytes) -> AsyncIterator[bytes]:
        yield self._head + extra + b',"predictions":"['
        self._spool.seek(part.start)
        left = part.end - part.start
        while left > 0:
            piece = self._spool.read(min(_PIECE, left))
            left -= len(piece)
            yield escape(piece if left else piece[:-1]).replace(b"\n", b",")
        yield b']"}'

    def _check(self, answer: aiohttp.ClientResponse, body: bytes) -> None:
        said = f"the data handler at {self._handler.url} answered {answer.status}: {excerpt(body)}"
        if answer.status in UNTOUCHED_STATUSES:
            raise Transient(OutputError(said), retry_after=seconds_of(answer.headers.get("Retry-After")))
        if not 200 <= answer.status < 300:
            raise OutputError(said)
        if not is_agreed(body):
            raise OutputError(f"{said}; agreed is an empty body, ok, or JSON without an error, so the store failed")


def flat(predictions: Sequence[Json]) -> list[Json]:
    """All values of all predictions in order; one prediction may be a list, or a list of lists."""
    values = list(predictions)
    while any(isinstance(value, list) for value in values):
        values = list(chain.from_iterable(value if isinstance(value, list) else [value] for value in values))
    return values


def _lines(values: list[Json]) -> bytes:
    """One value a line; numbers hold no comma, so they are dumped in one go."""
    if not values:
        return b""
    if set(map(type, values)) <= _COMMALESS:
        return orjson.dumps(values)[1:-1].replace(b",", b"\n") + b"\n"
    return b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values)


def escape(text: bytes) -> bytes:
    """JSON text as it stands inside a JSON string; line ends are left alone, they are the caller's."""
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


_CONFIRMING = (b"", b"ok")


def is_agreed(body: bytes) -> bool:
    """Whether the body of a 2xx answer says that the predictions are stored."""
    if body.strip().lower() in _CONFIRMING:
        return True
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return not (isinstance(value, dict) and value.get("error"))


def split(spool: BinaryIO, *, room: int) -> list[_Part]:
    """The spool in ranges of whole lines whose escaped text fits into `room` bytes each."""
    parts: list[_Part] = []
    spool.seek(0)
    start = position = escaped = offset = 0
    for count, line in enumerate(spool):
        size = len(escape(line))
        if escaped and escaped + size > room:
            parts.append(_Part(start=start, end=position, escaped=escaped, offset=offset))
            start, escaped, offset = position, 0, count
        position += len(line)
        escaped += size
    parts.append(_Part(start=start, end=position, escaped=escaped, offset=offset))
    return parts


def _too_large(size: int, limit: int, url: str) -> str:
    return (
        f"the predictions make one POST of {size / MIB:.1f} MiB, at most {limit / MIB:.1f} MiB are posted at once, and the "
        f"data handler at {url} does not take chunks (OPTIONS answered without {': '.join(DECLARATION)}); store less, let "
        "the handler take chunks, or use the file label"
    )


@asynccontextmanager
async def open_output(spec: StorageObject, around: Surroundings) -> AsyncIterator[OutputStore]:
    """Label `krateo` under `output`."""
    api = read_spec(spec, side="output").api
    members = _members(api, around)
    try:
        endpoint = read_endpoint(around.settings.endpoints_dir / "output", secret=api.endpoint_ref.name)
    except ValueError as error:
        raise OutputError(f"output.krateo.api.endpointRef: {error}") from error
    async with open_handler(api, endpoint, around.settings) as handler:
        with _new_spool(around.settings.spool_dir) as spool:
            yield KrateoOutput(handler, members, spool, around)


def _new_spool(folder: Path) -> BinaryIO:
    try:
        return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))
    except OSError as error:
        raise OutputError(f"no spool file can be made in {folder}: {error.strerror}") from error


def _members(api: Api, around: Surroundings) -> dict[str, Any]:  # Any: the payload is the user's JSON
    refuse_reserved(around.contract.parameters, where="parameters")
    members = api.body(around.contract)
    refuse_reserved(members, where="output.krateo.api.payload")
    return {"job_uid": around.contract.job_id, "pod_uid": around.settings.pod_uid, **members}
