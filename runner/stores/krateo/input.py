"""The input store `krateo`: sends one request to a data handler, spools the rows to disk and reads chunks from there.

The request may give a different response next time. So each Pod sends it once, and the fingerprint, a hash of the rows, shows
whether two Pods received the same. Memory does not depend on the response's size; the spool folder must have room for it.
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

from inferrun.plugins import InputError, Limits, Source, StorageObject, StoreContext
from runner.network.http_client import ExchangeFailed, read_start
from runner.network.network_failures import fault_of_status, size_of
from runner.network.retries import with_retries
from runner.stores.file.local_files import LocalFile
from runner.stores.file_ranges import FileRanges
from runner.stores.krateo.handler import Handler, open_handler
from runner.stores.krateo.response import ResultRows, Row
from runner.stores.krateo.spec import KrateoSpec
from runner.stores.storage_object import read_spec

_ERROR_BYTES = 64 * 1024
_PIECE = 64 * 1024
"""Bytes of the response that are decoded at once; decoded numbers take about ten times as much memory."""

_EXPECTED = '{"result": [[number, …], …]}'


@dataclass(frozen=True, slots=True)
class _Spooled:
    fingerprint: str
    size: int


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `krateo` under `input`."""
    api = read_spec(spec, KrateoSpec, field="input.krateo").api
    limits = context.limits
    spool = _new_spool(context.spool_dir)
    try:
        async with open_handler(api, context, side="input", error=InputError) as handler:
            body = orjson.dumps(api.body(context.contract))
            fetched = await with_retries(
                lambda: _fetch(handler, body, spool, limits=limits), budget=limits.retry_seconds
            )
        yield FileRanges(
            [LocalFile(folder=spool.parent, name=spool.name, size=fetched.size)],
            fingerprint=fetched.fingerprint,
            record_format=context.format_named("jsonl", "input.krateo"),
            limits=limits,
            current_fingerprint=lambda: fetched.fingerprint,
        )
    finally:
        spool.unlink(missing_ok=True)


async def _fetch(handler: Handler, body: bytes, spool: Path, *, limits: Limits) -> _Spooled:
    try:
        async with handler.request(body=body) as response:
            if 200 <= response.status < 300:
                return await _spool_rows(handler, response.content, spool, limits=limits)
            start = await read_start(response, _ERROR_BYTES)
            text = f"returned {response.status} with {size_of(start, is_whole=len(start) <= _ERROR_BYTES)}"
            failed = InputError(f"{handler.target} {text}; see the log of the data handler")
            raise fault_of_status(response.status, response.headers, failed)
    except ExchangeFailed as error:
        raise error.fault(InputError(f"{handler.target}: {error}")) from error
    except OSError as error:
        raise InputError(
            f"cannot spool the input to {spool.parent}: {error.strerror}; the Pod needs enough ephemeral storage "
            "for the whole response"
        ) from error


async def _spool_rows(handler: Handler, content: aiohttp.StreamReader, spool: Path, *, limits: Limits) -> _Spooled:
    rows, digest, size, received = ResultRows(row_limit=limits.record_bytes), hashlib.sha256(), 0, 0
    with spool.open("wb") as out:
        try:
            async for piece in content.iter_chunked(_PIECE):
                received += len(piece)
                lines = _lines(rows.feed(piece))
                digest.update(lines)
                size += out.write(lines)
                if size > limits.spool_bytes:
                    raise InputError(
                        f"{handler.target} returned more than {limits.spool_bytes} bytes of rows; limit the "
                        "query, or set a larger INFERRUN_SPOOL_BYTES in the image",
                        is_retryable=False,
                    )
            rows.close()
        except ValueError as error:
            raise InputError(
                f"{handler.target} returned an invalid body ({received} bytes read): {error}; expected {_EXPECTED}"
            ) from error
    return _Spooled(fingerprint=f"rows-sha256:{digest.hexdigest()}", size=size)


def _lines(rows: list[Row]) -> bytes:
    """Format one row per line. All rows are encoded in one call: a call per row would allocate a kilobyte for each."""
    return b"[" + orjson.dumps(rows)[2:-2].replace(b"],[", b"]\n[") + b"]\n" if rows else b""


def _new_spool(folder: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(prefix="input-", suffix=".jsonl", dir=folder)
    except OSError as error:
        raise InputError(f"cannot create a spool file in {folder}: {error.strerror}") from error
    os.close(handle)
    return Path(name)
