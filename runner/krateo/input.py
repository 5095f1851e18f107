"""The input store `krateo`: asks a data handler once, spools the rows to disk as they arrive, reads chunks from there.

An answer cannot be read twice alike, so each Pod asks for itself and the fingerprint, a hash over the rows, tells whether two
Pods got the same. Memory does not depend on the answer's size; the disk under the spool folder must hold it.
"""

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson

from runner.errors import InputError
from runner.http_failures import excerpt, is_transient
from runner.krateo.answer import ResultRows
from runner.krateo.endpoint import read_endpoint
from runner.krateo.handler import Handler, open_handler
from runner.krateo.spec import read_spec
from runner.ranges import FileRanges
from runner.retries import TRANSIENT_STATUSES, Transient, seconds_of, with_retries
from runner.seams import Source, StorageObject, Surroundings
from runner.values import InputFile, Row

_EXCERPT_BYTES = 64 * 1024
_PIECE = 64 * 1024
"""Bytes of the answer that are decoded at once; decoded numbers take about ten times as much."""

_AGREED = '{"result": [[number, …], …]}'


@dataclass(frozen=True, slots=True)
class _Spooled:
    fingerprint: str
    size: int


@asynccontextmanager
async def open_input(spec: StorageObject, around: Surroundings) -> AsyncIterator[Source]:
    """Label `krateo` under `input`."""
    api = read_spec(spec, side="input").api
    settings = around.settings
    try:
        endpoint = read_endpoint(settings.endpoints_dir / "input", secret=api.endpoint_ref.name)
    except ValueError as error:
        raise InputError(f"input.krateo.api.endpointRef: {error}") from error
    spool = _new_spool(settings.spool_dir)
    try:
        async with open_handler(api, endpoint, settings) as handler:
            body = orjson.dumps(api.body(around.contract))
            fetched = await with_retries(
                lambda: _fetch(handler, body, spool, row_limit=settings.record_bytes), budget=settings.retry_seconds
            )
        yield FileRanges(
            spool.parent,
            [InputFile(name=spool.name, size=fetched.size)],
            fingerprint=fetched.fingerprint,
            record_format=around.format_named("jsonl", "input.krateo"),
            settings=settings,
            look_again=lambda: fetched.fingerprint,
        )
    finally:
        spool.unlink(missing_ok=True)


async def _fetch(handler: Handler, body: bytes, spool: Path, *, row_limit: int) -> _Spooled:
    try:
        async with handler.request(data=body) as answer:
            if not 200 <= answer.status < 300:
                raise await _refused(handler, answer)
            return await _spool_rows(handler, answer.content, spool, row_limit=row_limit)
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        failed = InputError(handler.layer_of(error))
        raise (Transient(failed) if is_transient(error) else failed) from error
    except OSError as error:
        raise InputError(
            f"the input could not be spooled to {spool.parent}: {error.strerror}; the Pod's ephemeral storage "
            "must hold the whole answer"
        ) from error


async def _refused(handler: Handler, answer: aiohttp.ClientResponse) -> Exception:
    text = excerpt(await answer.content.read(_EXCERPT_BYTES))
    failed = InputError(f"the data handler at {handler.url} answered {answer.status}: {text}")
    if answer.status in TRANSIENT_STATUSES:
        return Transient(failed, retry_after=seconds_of(answer.headers.get("Retry-After")))
    return failed


async def _spool_rows(handler: Handler, content: aiohttp.StreamReader, spool: Path, *, row_limit: int) -> _Spooled:
    rows, digest, size, start = ResultRows(row_limit=row_limit), hashlib.sha256(), 0, b""
    with spool.open("wb") as out:
        try:
            async for piece in content.iter_chunked(_PIECE):
                start = start or piece[:_EXCERPT_BYTES]
                lines = _lines(rows.feed(piece))
                digest.update(lines)
                size += out.write(lines)
            rows.close()
        except ValueError as error:
            raise InputError(
                f"the data handler at {handler.url} answered, but not {_AGREED}: {error}; the body begins: "
                f"{excerpt(start)}"
            ) from error
    return _Spooled(fingerprint=f"rows-sha256:{digest.hexdigest()}", size=size)


def _lines(rows: list[Row]) -> bytes:
    """One row a line. Dumped in one go: an encoder's buffer for each row would cost a kilobyte of memory a row."""
    return b"[" + orjson.dumps(rows)[2:-2].replace(b"],[", b"]\n[") + b"]\n" if rows else b""


def _new_spool(folder: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(prefix="input-", suffix=".jsonl", dir=folder)
    except OSError as error:
        raise InputError(f"no spool file can be made in {folder}: {error.strerror}") from error
    os.close(handle)
    return Path(name)
