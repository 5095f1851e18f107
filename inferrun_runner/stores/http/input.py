"""The input store `http`: one file on a web server.

If the server supports ranges and identifies the content by a strong ETag, the file is read in
ranges of that ETag where it is needed, and ETag and size are its fingerprint. Otherwise each Pod
spools the file to its disk, and the fingerprint is a hash of the content.

Sources and files are read by code that blocks, in any thread, so the requests have a thread with an
event loop of their own.
"""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from inferrun.formats.dataset import Dataset
from inferrun.plugins import (
    InputError,
    InputFile,
    PlannedObject,
    Source,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.storage import naming_secret_field, read_spec
from inferrun.stores import HttpStorage
from inferrun_runner.network.http_client import idle_timeout, open_client
from inferrun_runner.stores.block_cache import RemoteFile, ReturnedRange, cached
from inferrun_runner.stores.compression import decompressed
from inferrun_runner.stores.dataset import OpenedDataset, opened_format
from inferrun_runner.stores.file_ranges import FileRanges
from inferrun_runner.stores.http.location import location_of
from inferrun_runner.stores.http.web_file import WebFile
from inferrun_runner.stores.input_spool import InputSpool, spool_folder

T = TypeVar("T")


class Execute(Protocol):
    """Executes a coroutine in another thread and waits for its result."""

    # Any: what a coroutine sends and receives
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `http` under `input`."""
    wanted = read_spec(spec, HttpStorage, field="input.http")
    record_format = opened_format(wanted, context, field="input.http")
    with naming_secret_field("input.http.credentialsRef", InputError):
        location = location_of(wanted, context.endpoints_dir / "input")
    limits = context.limits
    with _event_loop() as execute, spool_folder(context.spool_dir) as folder, ExitStack() as opened:
        stack = AsyncExitStack()
        opening = open_client(
            limits, timeout=idle_timeout(limits.handler_timeout), tls=location.tls
        )
        web = WebFile(location, execute(stack.enter_async_context(opening)), limits)
        try:
            found = await asyncio.to_thread(lambda: execute(web.describe()))
            file: InputFile
            if found is not None:
                one = found

                def read_range(start: int, length: int) -> ReturnedRange:
                    return ReturnedRange(execute(web.read_range(start, length, found=one)))

                (file,) = opened.enter_context(
                    cached([RemoteFile(one.name, one.size, read_range)], context)
                )
            else:
                name = location.name.replace("\0", "").replace("/", "_")[-200:]
                spool = InputSpool(
                    folder / f"file-{name}",
                    limit=limits.spool_bytes,
                    what=f"input.http: {location.name}, whose server does not support ranges, has",
                )
                await asyncio.to_thread(lambda: execute(web.save(spool)))
                file = spool.file
                one = PlannedObject(file.name, file.size, spool.digest)

            with decompressed(
                [file], context, suffixes=record_format.suffixes, encoding_of=lambda _: web.encoding
            ) as readable:
                dataset = OpenedDataset(
                    Dataset((one,)),
                    {one.name: readable[0]},
                    partial(_fingerprint_of, is_content=found is None),
                    None,
                    wanted,
                    "input.http",
                )
                yield FileRanges(dataset, record_format=record_format, limits=limits)
        finally:
            execute(stack.aclose())


@contextmanager
def _event_loop() -> Iterator[Execute]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _fingerprint_of(objects: Sequence[PlannedObject], *, is_content: bool) -> str:
    """`is_content`: the tag of the file is the hash of its content."""
    if is_content:
        return f"content-sha256:{objects[0].tag}"
    text = "\n".join(f"{one.size}\t{one.tag}" for one in objects)
    return "http-sha256:" + hashlib.sha256(text.encode()).hexdigest()
