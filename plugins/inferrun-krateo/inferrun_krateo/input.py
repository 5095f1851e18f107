"""The input store `krateo`: sends one request to a data handler, spools the rows to disk and reads
chunks from there.

The request may give a different response next time. So each Pod sends it once, and the fingerprint,
a hash of the rows, shows whether two Pods received the same. Memory does not depend on the
response's size; the spool folder must have room for it.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import orjson

from inferrun.plugins import InputError, Source, SpooledInput, StorageObject, StoreContext
from inferrun.plugins.http import ExchangeFailed, fault_of_status, read_start, size_of
from inferrun.plugins.storage import read_spec
from inferrun_krateo.handler import Handler, open_handler
from inferrun_krateo.response import ResultRows
from inferrun_krateo.spec import KrateoSpec

_ERROR_BYTES = 64 * 1024
_PIECE = 64 * 1024
"""Bytes of the response that are decoded at once; decoded numbers take about ten times as much
memory."""

_EXPECTED = '{"result": [[number, …], …]}'


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `krateo` under `input`."""
    api = read_spec(spec, KrateoSpec, field="input.krateo").api
    services = context.services
    with ExitStack() as stack:
        async with open_handler(api, context, side="input", error=InputError) as handler:
            body = orjson.dumps(api.body(context.contract))
            what = f"{handler.target} returned rows of"
            spool = stack.enter_context(
                services.spooled("rows.jsonl", what=what, fix="limit the query, or ")
            )
            await services.with_retries(
                lambda: _fetch(handler, body, spool, row_limit=context.limits.record_bytes)
            )
        yield spool.source(context.format_named("jsonl", "input.krateo"))


async def _fetch(handler: Handler, body: bytes, spool: SpooledInput, *, row_limit: int) -> None:
    try:
        async with handler.request(body=body) as response:
            if not 200 <= response.status < 300:
                start = await read_start(response, _ERROR_BYTES)
                text = f"returned {response.status} with {size_of(start, is_whole=len(start) <= _ERROR_BYTES)}"
                failed = InputError(f"{handler.target} {text}; see the log of the data handler")
                raise fault_of_status(response.status, response.headers, failed)
            rows, received = ResultRows(row_limit=row_limit), 0
            with spool.opened():
                try:
                    async for piece in response.content.iter_chunked(_PIECE):
                        received += len(piece)
                        if found := rows.feed(piece):
                            # One row per line. All are encoded in one call: a call per row would
                            # allocate a kilobyte for each.
                            spool.write(
                                b"[" + orjson.dumps(found)[2:-2].replace(b"],[", b"]\n[") + b"]\n"
                            )
                    rows.close()
                except ValueError as error:
                    raise InputError(
                        f"{handler.target} returned an invalid body ({received} bytes read): {error}; expected {_EXPECTED}"
                    ) from error
    except ExchangeFailed as error:
        raise error.fault(InputError(f"{handler.target}: {error}")) from error
