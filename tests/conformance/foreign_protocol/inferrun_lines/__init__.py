"""A protocol as a third-party package would provide it: `lines`, one line of JSON per record over a
TCP connection per request.

A request is a line `{"model": …, "records": n}` and n lines with one record each. The response is n
lines with one prediction each, or a line `{"error": …}` with `rejected`, `busy`, `missing` or
`failed`. `modelUrl` is host and port.
"""

import asyncio
import json
import math
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar
from urllib.parse import urlsplit

from inferrun.plugins import (
    ArrowRecords,
    Batch,
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    Json,
    JsonRecords,
    Limits,
    Model,
    ModelAbilities,
    ModelContext,
    RecordError,
    Records,
    Results,
)

_KINDS = {"rejected": FaultKind.REJECTED, "busy": FaultKind.BUSY, "missing": FaultKind.NOT_SERVED}


class Lines:
    """The model behind one address."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()

    def __init__(self, model: str, host: str, port: int, limits: Limits) -> None:
        self._model = model
        self._host = host
        self._port = port
        self._limits = limits
        self._target = f"model {model!r} at lines://{host}:{port}"

    async def prepare(self) -> None:
        """Connect once."""
        _, writer = await self._connect()
        writer.close()

    async def predict(self, batch: Batch) -> Results:
        """Send one request."""
        head = json.dumps({"model": self._model, "records": len(batch)}).encode()
        reader, writer = await self._connect()
        try:
            async with asyncio.timeout(self._limits.request_timeout):
                writer.write(b"\n".join([head, *_texts(batch.records), b""]))
                await writer.drain()
                writer.write_eof()
                body = await self._read(reader)
        except TimeoutError as error:
            raise self._fault("no response in time", FaultKind.TIMEOUT) from error
        except OSError as error:
            raise self._fault("the connection was lost", FaultKind.LOST) from error
        finally:
            writer.close()
        return self._results(body, len(batch))

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        body = b""
        while piece := await reader.read(1 << 16):
            body += piece
            if len(body) > self._limits.response_bytes:
                raise self._fault("the response is too long", FaultKind.TOO_LARGE)
        return body

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(self._host, self._port)
        except socket.gaierror as error:
            raise self._fault(
                f"cannot resolve host name {self._host!r}", FaultKind.UNAVAILABLE
            ) from error
        except OSError as error:
            raise self._fault(
                "cannot connect; check kserve.modelUrl", FaultKind.UNAVAILABLE
            ) from error

    def _results(self, body: bytes, records: int) -> Results:
        try:
            values: list[Json] = [json.loads(line) for line in body.splitlines()]
        except ValueError as error:
            raise self._fault(
                "the response is something else than lines of JSON", FaultKind.INVALID
            ) from error
        if len(values) == 1 and isinstance(values[0], dict) and "error" in values[0]:
            kind = _KINDS.get(str(values[0]["error"]), FaultKind.SERVER_ERROR)
            raise self._fault(f"the server says {kind}", kind)
        if len(values) != records:
            raise self._fault(
                f"the response has {len(values)} predictions for {records} records",
                FaultKind.INVALID,
            )
        errors = {
            at: RecordError("invalid_prediction", f"the model returned {value}")
            for at, value in enumerate(values)
            if value is None or (isinstance(value, float) and not math.isfinite(value))
        }
        texts = [
            b"null" if at in errors else json.dumps(value).encode()
            for at, value in enumerate(values)
        ]
        return Results(JsonRecords(texts), errors)

    def _fault(self, text: str, kind: FaultKind) -> Fault:
        return Fault(InferenceError(f"{self._target}: {text}"), kind=kind)


def _texts(records: Records) -> Sequence[bytes]:
    if isinstance(records, ArrowRecords):
        rows = records.table.to_pylist()
        return [json.dumps([_plain(value) for value in row.values()]).encode() for row in rows]
    return records.texts


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


@asynccontextmanager
async def open_lines(model: Model, context: ModelContext) -> AsyncIterator[Lines]:
    """Open the protocol `lines`."""
    given = model.model_url.removeprefix("lines://")
    try:
        parts = urlsplit(f"lines://{given}")
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        host, port = "", 0
    if not host or not port or "://" in given:
        raise ContractError(
            "kserve.modelUrl: the protocol lines needs host and port, such as model.team:9000"
        )
    yield Lines(model.model_name, host, port, context.limits)
