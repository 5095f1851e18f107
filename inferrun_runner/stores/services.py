"""What the runner does for stores of other packages: its HTTP client, retries, the Pod's disk, and
texts of records."""

import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Block,
    ColumnSelection,
    Limits,
    OpenOutput,
    RecordFormat,
    Records,
    Source,
)
from inferrun.plugins.http import HttpClient
from inferrun_runner.network.connections import open_connections
from inferrun_runner.network.retries import with_retries
from inferrun_runner.registry import Registry
from inferrun_runner.stores.dataset import spooled
from inferrun_runner.stores.file.local_files import MemoryFile
from inferrun_runner.stores.file_ranges import FileRanges
from inferrun_runner.stores.input_spool import InputSpool, spool_folder

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


class Spooled(InputSpool):
    """Input on its way to the Pod's disk."""

    def __init__(self, path: Path, limits: Limits, *, what: str, fix: str) -> None:
        super().__init__(path, limit=limits.spool_bytes, what=what, fix=fix)
        self._limits = limits

    def source(self, record_format: RecordFormat) -> Source:
        """Return the source that reads the complete file in a format."""
        dataset = spooled(self.file, f"rows-sha256:{self.digest}")
        return FileRanges(dataset, record_format=record_format, limits=self._limits)


@dataclass(frozen=True, slots=True)
class RunnerServices:
    """The services of one run."""

    limits: Limits
    spool_dir: Path

    def http_client(
        self, *, tls: ssl.SSLContext | None = None
    ) -> AbstractAsyncContextManager[HttpClient]:
        """Open a client whose requests may take long, but send something within
        `handler_timeout`."""
        from inferrun_runner.network.http_client import idle_timeout, open_client  # noqa: PLC0415  only runs with a handler need aiohttp

        return open_client(self.limits, timeout=idle_timeout(self.limits.handler_timeout), tls=tls)

    async def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` until it raises no transient Fault, or raise the Fault's error after
        `retry_seconds`."""
        return await with_retries(attempt, budget=self.limits.retry_seconds)

    @contextmanager
    def spooled(self, name: str, *, what: str, fix: str = "") -> Iterator[Spooled]:
        """Create a file for input, which is deleted when the context ends."""
        with spool_folder(self.spool_dir) as folder:
            yield Spooled(folder / name, self.limits, what=what, fix=fix)

    def used_columns(
        self, schema: "pyarrow.Schema", columns: ColumnSelection, *, name: str
    ) -> "pyarrow.Schema":
        """Return the columns of a table that are used, as if it were a file."""
        from inferrun.formats.unify import SchemaRules, schema_of  # noqa: PLC0415  only runs with columns import pyarrow

        return schema_of(
            [MemoryFile(name, b"")],
            lambda _: schema,
            columns,
            SchemaRules({}, name, may_miss=False),
        )

    def block_of(self, rows: "pyarrow.RecordBatch", columns: ColumnSelection) -> Block:
        """Return rows as records."""
        from inferrun.formats.columns import block_of  # noqa: PLC0415  only runs with columns import pyarrow

        return block_of(rows, columns)

    def output_store(self, label: str) -> OpenOutput:
        """Return the opener of another output, to build on."""
        return Registry().output_store(label)

    async def check_address(self, url: str) -> None:
        """Raise AddressRefused if runs must not reach the server of a URL."""
        server = urlsplit(url)
        if server.hostname:
            connections = await open_connections(self.limits)
            await connections.check(
                server.hostname, server.port or (443 if server.scheme == "https" else 80)
            )

    def json_texts(self, records: Records) -> Sequence[bytes]:
        """Return one JSON text per record."""
        return json_texts(records)
