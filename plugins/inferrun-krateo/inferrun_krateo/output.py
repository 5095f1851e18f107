"""The output store `krateo`: spools the predictions to disk, then sends all of them to a data
handler in one POST.

The body is `{job_uid, pod_uid, predictions, …parameters}`, where `predictions` is a JSON array
inside a string: the model's values in input order, flattened. A handler stores what it receives, so
delivery is at least once: if a Pod dies after its POST, the predictions remain stored, and the next
Pod sends them again under its own `pod_uid`.

If the body exceeds the limit, the run fails unless the handler declares that it accepts chunks: it
responds to `OPTIONS` on the same path with the header `Accept-Chunks: predictions`. It is asked
when the spooled predictions first exceed the limit, before the rest of the input is predicted;
below the limit no `OPTIONS` request is sent. It then receives several POSTs with two more keys:
`chunk`, the number of the POST from 0, and `offset`, the index of its first prediction among all.

Success is a 2xx response whose body is empty, `ok`, or JSON without an `error`. The Krateo handler
returns 200 with a traceback in the body if its script failed; that and any other text count as a
failure. A POST is repeated only if the handler certainly did not process it: after 429 and if no
connection was established. After 503 it may have stored the predictions, because a proxy in front
of it may have given up waiting. The result names the `pod_uid` whose predictions are complete.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, BinaryIO, cast

import orjson

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Counts,
    Delivery,
    Fault,
    FaultKind,
    InputPlan,
    Output,
    OutputError,
    OutputStore,
    ResultCounts,
    Results,
    Skipped,
    StorageObject,
    StoreAbilities,
    StoreContext,
)
from inferrun.plugins.http import (
    ExchangeFailed,
    fault_of_status,
    read_start,
    retry_after_of,
    size_of,
)
from inferrun.plugins.limits import MIB
from inferrun.plugins.storage import read_spec
from inferrun_krateo.handler import Handler, open_handler
from inferrun_krateo.prediction_text import SpoolPart, escape, lines_of, split
from inferrun_krateo.spec import KrateoSpec, reject_reserved

_RESPONSE_BYTES = 64 * 1024
_PIECE = 256 * 1024
_ROOM_FOR_KEYS = 64
"""Maximum bytes of the members `chunk` and `offset`."""

_NOT_PROCESSED = 429
"""The only status after which the predictions are certainly not stored and a retry may help."""

_TRANSIENT = frozenset({429, 502, 503, 504})
"""After these statuses, the question whether chunks are accepted is asked again."""

_UNKNOWN = "it is unknown whether the predictions were stored"

DECLARATION = ("Accept-Chunks", "predictions")


class KrateoOutput:
    """Spools the predictions of one run and sends them to a data handler."""

    delivery: Delivery = "AtLeastOnce"
    abilities = StoreAbilities(commits_chunks=False)

    def __init__(
        self, handler: Handler, members: dict[str, Any], spool: BinaryIO, context: StoreContext
    ) -> None:
        self._handler = handler
        self._head = orjson.dumps(members)[:-1]  # the closing brace follows the predictions
        self._spool = spool
        self._limits = context.limits
        self._services = context.services
        self._spool_dir = context.spool_dir
        self._size = 0
        self._escaped = 0
        self._is_chunked = False
        self._pod_uid = context.pod_uid
        self._skipped: tuple[Skipped, ...] = ()

    async def open(self) -> Checkpoint:
        """Return an empty checkpoint: a data handler cannot be asked for the stored predictions."""
        return Checkpoint()

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Accept the plan: each Pod predicts the whole input."""
        self._skipped = plan.skipped
        return plan

    def writer(self, chunk: Chunk) -> "KrateoChunkWriter":  # noqa: ARG002  required by the seam
        """Return a writer to the spool, which all chunks share."""
        return KrateoChunkWriter(self)

    async def spool(self, results: Results) -> None:
        """Spool one line per value."""
        lines = lines_of(self._services.json_texts(results.values))
        if self._size + len(lines) > self._limits.spool_bytes:
            raise OutputError(
                f"the predictions need more than {self._limits.spool_bytes} bytes of disk; use the file label, or set a "
                "larger limits.spool in the config",
                is_retryable=False,
            )
        with self._spooling():
            self._size += self._spool.write(lines)
        self._escaped += len(escape(lines))
        if not self._is_chunked and self._body_size(self._escaped) > self._limits.post_limit:
            if not await self._services.with_retries(self._accepts_chunks):
                size, limit = self._body_size(self._escaped) / MIB, self._limits.post_limit / MIB
                raise OutputError(
                    f"the predictions need a POST of {size:.1f} MiB or more, the limit is {limit:.1f} MiB, and the data handler at "
                    f"{self._handler.location} does not accept chunks (its OPTIONS response lacks {': '.join(DECLARATION)}); "
                    "implement chunks in the handler, or use the file label",
                    is_retryable=False,
                )
            self._is_chunked = True

    async def finish(self, counts: Counts) -> CommittedRun:
        """Send all predictions."""
        with self._spooling():
            self._spool.flush()
        if self._is_chunked:
            room = self._limits.post_limit - self._body_size(0) - _ROOM_FOR_KEYS
            self._spool.seek(0)
            for number, part in enumerate(split(self._spool, room=room)):
                await self._post(part, extra=b',"chunk":%d,"offset":%d' % (number, part.offset))
        else:
            await self._post(
                SpoolPart(start=0, end=self._size, escaped=self._escaped, offset=0), extra=b""
            )
        return CommittedRun(
            total=counts.total,
            completed=counts.completed,
            failed=counts.failed,
            output=Output(
                location=self._handler.location[:1024], manifest=f"pod_uid={self._pod_uid}"[:1024]
            ),
            skipped=self._skipped,
        )

    @contextmanager
    def _spooling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"cannot spool the predictions to {self._spool_dir}: {error.strerror}; the Pod needs enough ephemeral "
                "storage for them"
            ) from error

    async def _accepts_chunks(self) -> bool:
        name, wanted = DECLARATION
        try:
            async with self._handler.request(verb="OPTIONS", body=None) as response:
                if response.status in _TRANSIENT:
                    text = f"{self._handler.target} returned {response.status} to OPTIONS"
                    raise fault_of_status(response.status, response.headers, OutputError(text))
                declared = str(response.headers.get(name, ""))
                return bool(response.status < 300 and wanted in declared.replace(",", " ").split())
        except ExchangeFailed as error:
            raise error.fault(OutputError(f"{self._handler.target}: {error}")) from error

    def _body_size(self, escaped: int) -> int:
        """Return the size of a body. Each newline of the spool becomes a comma, except for the
        last, which is dropped."""
        return len(self._head) + len(b',"predictions":"[') + max(escaped - 1, 0) + len(b']"}')

    async def _post(self, part: SpoolPart, *, extra: bytes) -> None:
        size = self._body_size(part.escaped) + len(extra)

        async def attempt() -> None:
            headers = {"Content-Length": str(size)}
            try:
                async with self._handler.request(
                    body=self._body(part, extra), headers=headers
                ) as response:
                    body = await read_start(response, _RESPONSE_BYTES)
            except ExchangeFailed as error:
                text = f"{self._handler.target}: {error}"
                if not error.was_sent:
                    raise error.fault(OutputError(text)) from error
                raise OutputError(f"{text}; {_UNKNOWN}") from error
            failure = f"{self._handler.target} returned {response.status} with {size_of(body)}; see the log of the data handler"
            if response.status == _NOT_PROCESSED:
                retry_after = retry_after_of(response.headers)
                raise Fault(
                    OutputError(failure),
                    kind=FaultKind.BUSY,
                    retry_after=retry_after,
                    was_sent=False,
                )
            if response.status >= 500:
                raise OutputError(f"{failure}; {_UNKNOWN}")
            if not 200 <= response.status < 300:
                raise OutputError(failure)
            if not is_confirmed(body):
                raise OutputError(f"{failure}; expected an empty body, ok, or JSON without error")

        await self._services.with_retries(attempt)

    async def _body(self, part: SpoolPart, extra: bytes) -> AsyncIterator[bytes]:
        yield self._head + extra + b',"predictions":"['
        self._spool.seek(part.start)
        left = part.end - part.start
        while left > 0:
            piece = self._spool.read(min(_PIECE, left))
            left -= len(piece)
            yield escape(piece if left else piece[:-1]).replace(b"\n", b",")
        yield b']"}'


class KrateoChunkWriter:
    """Counts the results of one chunk; they are stored by the POST at the end."""

    def __init__(self, store: KrateoOutput) -> None:
        self._store = store
        self._counts = ResultCounts(0)

    async def write(self, batch: Batch, results: Results) -> None:  # noqa: ARG002  required by the seam
        """Spool the values."""
        self._counts += results.counts
        await self._store.spool(results)

    async def commit(self) -> ChunkCommit:
        """Return the counts."""
        return ChunkCommit(self._counts)


def is_confirmed(body: bytes) -> bool:
    """Return whether the body of a 2xx response confirms that the predictions are stored."""
    if body.strip().lower() in (b"", b"ok"):
        return True
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return not (isinstance(value, dict) and value.get("error"))


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `krateo` under `output`."""
    api = read_spec(spec, KrateoSpec, field="output.krateo").api
    reject_reserved(context.contract.parameters, where="parameters")
    body = api.body(context.contract)
    reject_reserved(body, where="output.krateo.api.payload")
    members = {"job_uid": context.contract.job_id, "pod_uid": context.pod_uid, **body}
    async with open_handler(api, context, side="output", error=OutputError) as handler:
        try:
            spool = tempfile.TemporaryFile(dir=context.spool_dir)  # noqa: SIM115  closed below
        except OSError as error:
            raise OutputError(
                f"cannot create a spool file in {context.spool_dir}: {error.strerror}"
            ) from error
        with spool:
            yield KrateoOutput(handler, members, cast("BinaryIO", spool), context)
