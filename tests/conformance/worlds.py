"""What the conformance suites need per store: its backend, which a test can fill and inspect. One
world per store.

A world provides the storage objects and the context; the store itself is loaded through the
registry, as the runner loads it.
"""

import asyncio
import gzip
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from inferrun.contract import InputRun
from inferrun.formats.result_schema import result_schema
from inferrun.placeholders import Values
from inferrun.plugins import (
    Batch,
    Chunk,
    Counts,
    InputPlan,
    JsonRecords,
    Model,
    Results,
    Source,
    StoreContext,
)
from inferrun.plugins.testing import InputWorld, OutputWorld, StoreWorld, store_context
from inferrun.plugins.testing.worlds import NO_LIMITS, RUN
from inferrun.resources.templates import Given, resolve_storage
from inferrun.stores import OBJECT_STORES, FileStorage, S3Storage, Store
from inferrun_runner import registry
from inferrun_runner.stores.services import RunnerServices
from tests.integration.runner.clouds import CloudBucket, Clouds
from tests.integration.runner.pgbouncer import MODES
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.s3_server import (
    ACCESS_KEY,
    BUCKET,
    SECRET_KEY,
    S3Server,
    credentials,
    s3_server,
)
from tests.integration.runner.servers import Handler, data_handler
from tests.integration.runner.web_server import web_server

Json = dict[str, Any]  # Any: a storage object
Rows = Sequence[Sequence[object]]
CANARY = "c4nary"
"""A credential in the URL of the model, which no store may write."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The folders of a Pod in a test."""

    folder: Path
    postgres: Callable[[str], Postgres]
    """Returns the server that all tests share, behind a pooler of a mode unless it is empty, and
    starts it if necessary."""

    clouds: Clouds

    def context(
        self, *, run: str = RUN, pod: str = "pod-1", limits: Mapping[str, object] = NO_LIMITS
    ) -> StoreContext:
        """The context of a store in a Pod of a run."""
        found = store_context(self.folder, run=run, pod=pod, limits=limits)
        model = Model(model_name="iris", model_url=f"http://user:{CANARY}@models/v2?key={CANARY}")
        return replace(
            found,
            contract=found.contract.model_copy(update={"kserve": model}),
            services=RunnerServices(found.limits, found.spool_dir),
            format_named=registry.Registry().record_format,
        )


@dataclass
class _World(StoreWorld):
    """A store, as the runner loads it."""

    disk: Disk
    label: str
    right: Json
    wrong: Json

    def context(
        self, *, run: str = RUN, pod: str = "pod-1", limits: Mapping[str, object] = NO_LIMITS
    ) -> StoreContext:
        return self.disk.context(run=run, pod=pod, limits=limits)

    def load(self, group: str) -> object:
        known = registry.Registry()
        return (
            known.input_store(self.label)
            if group == registry.INPUTS
            else known.output_store(self.label)
        )


class _Input(_World, InputWorld):
    """An input store."""


class _Output(_World, OutputWorld):
    """An output store."""

    delivery = "ExactlyOnce"


def _lines(rows: Rows) -> bytes:
    return b"".join(orjson.dumps(list(row)) + b"\n" for row in rows)


def _csv(rows: Rows) -> bytes:
    header = [f"column {at}" for at in range(len(rows[0]) if rows else 2)]
    return "".join(",".join(map(str, line)) + "\r\n" for line in [header, *rows]).encode()


def _table(rows: Rows) -> pyarrow.Table:
    return pyarrow.table({f"column {at}": _column([row[at] for row in rows]) for at in range(2)})


def _column(values: Sequence[object]) -> pyarrow.Array:
    if any(isinstance(value, str) for value in values):
        return pyarrow.array(list(map(str, values)), pyarrow.string())
    return pyarrow.array(values, pyarrow.float64())


def _arrow(rows: Rows) -> bytes:
    """Columns in batches of seven rows."""
    table, sink = _table(rows), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, table.schema) as out:
        out.write_table(table, max_chunksize=7)
    content: bytes = sink.getvalue().to_pybytes()
    return content


_ENCODERS: dict[str, Callable[[Rows], bytes]] = {
    ".jsonl": _lines,
    ".jsonl.zst": lambda rows: pyarrow.Codec("zstd").compress(_lines(rows), asbytes=True),
    ".csv": _csv,
    ".csv.gz": lambda rows: gzip.compress(_csv(rows), mtime=0),
    ".arrow": _arrow,
}


def _write_files(folder: Path, suffixes: Sequence[str], rows: Rows) -> None:
    """Store rows in one file per suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // len(suffixes))
    for at, suffix in enumerate(suffixes):
        file = folder / f"{at}{suffix}"
        # an S3 server keeps the ETag of an object that is overwritten behind it
        file.unlink(missing_ok=True)
        file.write_bytes(_ENCODERS[suffix](rows[at * size : (at + 1) * size]))


@dataclass
class FileInput(_Input):
    """Files in a folder."""

    suffixes: Sequence[str]

    def fill(self, rows: Rows) -> None:
        _write_files(self.disk.context().input_dir / "given", self.suffixes, rows)


class FileOutput(_Output):
    """A folder on a claim."""

    def stored(self, run: str) -> list[object]:
        parts = sorted(self.disk.context().output_dir.glob(f"made/inf-run-{run[:8]}/predictions/*"))
        lines = [orjson.loads(line) for part in parts for line in part.read_bytes().splitlines()]
        assert [line["index"] for line in lines] == list(range(len(lines)))
        return [line.get("prediction", line.get("error")) for line in lines]


@dataclass
class S3Input(_Input):
    """Objects below a prefix."""

    server: S3Server
    suffixes: Sequence[str]

    def fill(self, rows: Rows) -> None:
        _write_files(self.server.bucket / "given", self.suffixes, rows)


@dataclass
class S3Output(_Output):
    """Objects below a prefix."""

    server: S3Server

    def stored(self, run: str) -> list[object]:
        return _stored(self.server.bucket / "made" / f"inf-run-{run[:8]}")


def _stored(folder: Path) -> list[object]:
    """The predictions in the files of a run."""
    documents = [orjson.loads(path.read_bytes()) for path in sorted((folder / "commits").glob("*"))]
    manifest = folder / "manifest.json"
    is_ended = manifest.exists() and "parts" in orjson.loads(manifest.read_bytes())
    parts = (
        orjson.loads(manifest.read_bytes())["parts"]
        if is_ended
        else [one["part"] for one in documents]
    )
    texts = [(folder / part["file"]).read_bytes() for part in parts]
    lines = [orjson.loads(line) for text in texts for line in text.splitlines()]
    assert [line["index"] for line in lines] == list(range(len(lines)))
    return [line.get("prediction", line.get("error")) for line in lines]


@dataclass
class CloudInput(_Input):
    """Objects below a prefix."""

    bucket: CloudBucket
    suffixes: Sequence[str]

    def fill(self, rows: Rows) -> None:
        _write_files(self.disk.folder / "uploaded" / "given", self.suffixes, rows)
        self.bucket.upload(self.disk.folder / "uploaded")


@dataclass
class CloudOutput(_Output):
    """Objects below a prefix."""

    bucket: CloudBucket

    def stored(self, run: str) -> list[object]:
        copy = self.bucket.download(self.disk.folder / f"copy-{uuid.uuid4().hex}")
        return _stored(copy / "made" / f"inf-run-{run[:8]}")


@dataclass
class KrateoInput(_Input):
    """A data handler on loopback."""

    handler: Handler

    def fill(self, rows: Rows) -> None:
        self.handler.rows = [list(row) for row in rows]  # type: ignore[arg-type]  # a test may pass strings


@dataclass
class KrateoOutput(_Output):
    """A data handler on loopback."""

    handler: Handler
    delivery = "AtLeastOnce"

    def stored(self, run: str) -> list[object]:
        bodies = [body for body in self.handler.stored if body["job_uid"] == run]
        return [value for body in bodies for value in orjson.loads(body["predictions"])]


@dataclass
class HttpInput(_Input):
    """A file on a web server with or without ranges."""

    served: dict[str, bytes]

    def fill(self, rows: Rows) -> None:
        self.served["body"] = _lines(rows)


@dataclass
class SqlInput(_Input):
    """A table of a database."""

    server: Postgres
    schema: str

    def fill(self, rows: Rows) -> None:
        self.server.execute(f"drop schema if exists {self.schema} cascade")
        self.server.execute(f"create schema {self.schema}")
        kind = "text" if any(isinstance(value, str) for row in rows for value in row) else "float8"
        self.server.execute(
            f"create table {self.schema}.given (id bigint primary key, a {kind}, b {kind})"
        )
        with self.server.connect() as connection:
            values = [(7 * place, *row) for place, row in enumerate(rows)]
            connection.cursor().executemany(
                f"insert into {self.schema}.given values (%s, %s, %s)",  # noqa: S608
                values,
            )


@dataclass
class SqlOutput(_Output):
    """A table of a database."""

    server: Postgres
    schema: str

    def stored(self, run: str) -> list[object]:
        text = f"select index, prediction, error from {self.schema}.predictions where run = %s order by index"  # noqa: S608
        rows = self.server.execute(text, run)
        assert [index for index, _, _ in rows] == list(range(len(rows)))
        return [error or prediction for _, prediction, error in rows]


class RunInput(_Input):
    """The output of another run, written by an output store in chunks of 20 records."""

    earlier: InputRun | None = None
    fills = 0
    has_fixed_chunks = True  # those of the other run

    def fill(self, rows: Rows) -> None:
        self.fills += 1
        with ThreadPoolExecutor(1) as pool:  # the test runs in an event loop
            pool.submit(asyncio.run, self._predict(rows, run=f"{self.fills}{RUN[1:]}")).result()

    async def _predict(self, rows: Rows, *, run: str) -> None:
        context = self.disk.context(run=run)
        label, spec = next(iter(self.right.items()))
        chunks = tuple(
            Chunk(at // 20, 0, at, at + 20, at, min(20, len(rows) - at))
            for at in range(0, len(rows), 20)
        )
        async with registry.Registry().output_store(label)(spec, context) as sink:
            await sink.open()
            columns = result_schema(
                key=None,
                copied=(),
                predicted=pyarrow.json_(),
                types={},
                is_flat=False,
                field=f"output.{label}",
            )
            await sink.begin(
                InputPlan(fingerprint=run, chunks=chunks, result_schema=columns.serialized())
            )
            for chunk in chunks:
                writer = sink.writer(chunk)
                texts = JsonRecords([orjson.dumps(row) for row in rows[chunk.first : chunk.stop]])
                await writer.write(Batch(first=chunk.first, records=texts), Results(texts))
                await writer.commit()
            done = await sink.finish(Counts(total=len(rows), completed=len(rows)))
        self.earlier = InputRun(
            name=f"run-{self.fills}",
            run_id=run,
            job_name=context.contract.job_name,
            manifest_sha256=done.output.sha256,
            output=self.right,
        )

    def open(self, **limits: int) -> AbstractAsyncContextManager[Source]:
        return self._open({"name": "earlier"}, **limits)

    def open_wrong(self) -> AbstractAsyncContextManager[Source]:
        return self._open(self.wrong)

    def _open(self, given: Json, **limits: int) -> AbstractAsyncContextManager[Source]:
        context = self.disk.context(limits=limits)
        contract = context.contract.model_copy(update={"input_run": self.earlier})
        found = replace(context, contract=contract, input_dir=context.output_dir)
        return registry.Registry().input_store("run")(given, found)


class DeltaInput(_Input):
    """A Delta table on a claim."""

    def fill(self, rows: Rows) -> None:
        write_deltalake(
            self.disk.context().input_dir / "given",
            _table(rows),
            mode="overwrite",
            schema_mode="overwrite",
        )


@dataclass
class DeltaOutput(_Output):
    """A Delta table on a claim or in a bucket."""

    table: Path

    def stored(self, run: str) -> list[object]:
        return _rows_of_delta(self.table, run)


@dataclass
class _Iceberg(_World):
    """An Iceberg table in a bucket, whose catalog is a database on a disk."""

    server: S3Server
    catalog: Catalog


class IcebergInput(_Iceberg, _Input):
    """A table that is replaced each time it is filled."""

    def fill(self, rows: Rows) -> None:
        table = _table(rows)
        with suppress(NoSuchTableError):
            self.catalog.drop_table("lake.given")
        self.catalog.create_table(
            "lake.given", table.schema, location=f"s3://{BUCKET}/given"
        ).append(table)


class IcebergOutput(_Iceberg, _Output):
    """A table that the first run creates."""

    def stored(self, run: str) -> list[object]:
        table = self.catalog.load_table("lake.made")
        summaries = [one.summary.additional_properties for one in table.snapshots() if one.summary]
        said = [one["inferrun.outcome"] for one in summaries if one.get("inferrun.run") == run]
        assert len(said) <= 1
        if said != ["committed"]:
            return _staged(self.server.bucket / "made", run)
        return _rows_of_run(
            [one.file.file_path for one in table.scan().plan_files()],
            self.server.bucket / "made",
            run,
        )


def _rows_of_delta(table: Path, run: str) -> list[object]:
    found = DeltaTable(str(table))
    if found.transaction_version(f"inferrun-{run}") != 1:
        return _staged(table, run)
    return _rows_of_run(found.file_uris(), table, run)


def _rows_of_run(files: Sequence[str], table: Path, run: str) -> list[object]:
    """The rows that a run has added, in their order."""
    own = [file.rpartition("/_inferrun/")[2] for file in files if f"/inf-run-{run[:8]}/" in file]
    rows = [
        row
        for file in own
        for row in pyarrow.parquet.read_table(table / "_inferrun" / file).to_pylist()
    ]
    rows.sort(key=lambda row: int(row["index"]))
    assert [row["index"] for row in rows] == list(range(len(rows)))
    return [row["error"] if row["prediction"] is None else row["prediction"] for row in rows]


def _staged(table: Path, run: str) -> list[object]:
    """The predictions in the parts of committed chunks."""
    folder = f"inf-run-{run[:8]}"
    commits = sorted((table / "_inferrun" / folder / "commits").glob("*.json"))
    parts = [orjson.loads(path.read_bytes())["part"]["file"] for path in commits]
    return _rows_of_run([f"/_inferrun/{folder}/{part}" for part in parts], table, run)


_API = {"endpointRef": {"name": "handler-endpoint"}, "verb": "POST"}
_FILE = {"claimName": "claim"}

OpenInputWorld = Callable[[Disk], AbstractAsyncContextManager[InputWorld]]
OpenOutputWorld = Callable[[Disk], AbstractAsyncContextManager[OutputWorld]]


def _resolved(model: type[Store], template: Json, *, place: str) -> Json:
    """The storage object of a run that sets the parameter `place`."""
    values = Values("run", "namespace", {"place": place}, None)
    found = resolve_storage(template, model=model, path="", given=Given(values, parameters={}))
    assert not found.faults
    resolved: Json = found.storage
    return resolved


def file_input(*suffixes: str, form: str) -> OpenInputWorld:
    """The built-in input store `file` with a format."""
    given = {**_FILE, "format": form, "allowEmpty": True}
    right = _resolved(FileStorage, {**given, "path": "$(params.place)"}, place="given")
    return lambda disk: nullcontext(
        FileInput(disk, "file", right, {**given, "path": "../given"}, suffixes)
    )


def file_output(disk: Disk) -> AbstractAsyncContextManager[OutputWorld]:
    """The built-in output store `file`."""
    right = _resolved(FileStorage, {**_FILE, "path": "$(params.place)"}, place="made")
    return nullcontext(FileOutput(disk, "file", right, {**_FILE, "path": "/made"}))


@asynccontextmanager
async def krateo_input(disk: Disk) -> AsyncIterator[InputWorld]:
    """The input store `krateo`, as the installed package provides it."""
    async with data_handler() as handler:
        _mount(disk, "input", handler)
        right = {"api": {**_API, "path": "/compute/input"}}
        yield KrateoInput(disk, "krateo", right, {"api": {**_API, "verb": "FETCH"}}, handler)


@asynccontextmanager
async def krateo_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The output store `krateo`, as the installed package provides it."""
    async with data_handler() as handler:
        _mount(disk, "output", handler)
        right = {"api": {**_API, "path": "/compute/output"}}
        yield KrateoOutput(disk, "krateo", right, {"api": {"path": "/compute/output"}}, handler)


def _mount(disk: Disk, side: str, handler: Handler) -> None:
    folder = disk.context().endpoints_dir / side
    folder.mkdir()
    (folder / "server-url").write_text(handler.url)


@asynccontextmanager
async def _bucket(disk: Disk, side: str) -> AsyncIterator[S3Server]:
    async with s3_server(disk.folder / "s3") as server:
        credentials(disk.context().endpoints_dir / side)
        yield server


def s3_input(*suffixes: str) -> OpenInputWorld:
    """The built-in input store `s3`."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncIterator[InputWorld]:
        async with _bucket(disk, "input") as server:
            right = _resolved(
                S3Storage, {**server.spec("$(params.place)/"), "allowEmpty": True}, place="given"
            )
            yield S3Input(disk, "s3", right, server.spec("../given"), server, suffixes)

    return opened


@asynccontextmanager
async def s3_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The built-in output store `s3`."""
    async with _bucket(disk, "output") as server:
        right = _resolved(S3Storage, server.spec("$(params.place)"), place="made")
        yield S3Output(disk, "s3", right, server.spec("/made"), server)


def cloud_input(label: str, *suffixes: str) -> OpenInputWorld:
    """The built-in input store of another cloud."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncIterator[InputWorld]:
        bucket = disk.clouds.bucket(label)
        bucket.mount(disk.context().endpoints_dir / "input")
        right = {**bucket.spec("$(params.place)/"), "allowEmpty": True}
        yield CloudInput(
            disk,
            label,
            _resolved(OBJECT_STORES[label], right, place="given"),
            bucket.spec("../given"),
            bucket,
            suffixes,
        )

    return opened


def cloud_output(label: str) -> OpenOutputWorld:
    """The built-in output store of another cloud."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncIterator[OutputWorld]:
        bucket = disk.clouds.bucket(label)
        bucket.mount(disk.context().endpoints_dir / "output")
        right = _resolved(OBJECT_STORES[label], bucket.spec("$(params.place)"), place="made")
        yield CloudOutput(disk, label, right, bucket.spec("/made"), bucket)

    return opened


def http_input(*, has_ranges: bool) -> OpenInputWorld:
    """The built-in input store `http` with a server that supports ranges, or does not."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncIterator[InputWorld]:
        served = {"body": b""}
        async with web_server(served, has_ranges=has_ranges) as address:
            right = {"url": f"{address}/files/rows.jsonl?version=1", "allowEmpty": True}
            yield HttpInput(
                disk, "http", right, {"url": f"ftp{address.removeprefix('http')}"}, served
            )

    return opened


def _database(disk: Disk, side: str, *, pool: str) -> tuple[Postgres, str]:
    """The server, and the name of a schema of this test."""
    server = disk.postgres(pool)
    server.mount(disk.context().endpoints_dir / side)
    return server, f"world_{uuid.uuid4().hex}"


def sql_input(query: str, *, pool: str = "", **more: str) -> OpenInputWorld:
    """The built-in input store `sql`."""
    reference = {"credentialsRef": {"name": "database"}}

    def opened(disk: Disk) -> AbstractAsyncContextManager[InputWorld]:
        server, schema = _database(disk, "input", pool=pool)
        right = {**reference, "query": query.format(schema), **more}
        return nullcontext(
            SqlInput(disk, "sql", right, {**reference, "query": " ; "}, server, schema)
        )

    return opened


def sql_output(pool: str = "") -> OpenOutputWorld:
    """The built-in output store `sql`."""

    def opened(disk: Disk) -> AbstractAsyncContextManager[OutputWorld]:
        server, schema = _database(disk, "output", pool=pool)
        server.execute(f"create schema {schema}")
        reference = {"credentialsRef": {"name": "database"}}
        right, wrong = (
            {**reference, "table": table} for table in (f"{schema}.predictions", "a; drop table b")
        )
        return nullcontext(SqlOutput(disk, "sql", right, wrong, server, schema))

    return opened


def run_input(output: OpenOutputWorld, **more: str) -> OpenInputWorld:
    """The built-in input store `run`, with the output of a run that a store has written."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncIterator[InputWorld]:
        async with output(disk) as written:
            folder = disk.context().endpoints_dir
            (folder / "input").symlink_to(folder / "output")
            right = {written.label: {**written.right, **more}}
            yield RunInput(disk, "run", right, {"name": "a", "schedule": "b"})

    return opened


def delta_input(disk: Disk) -> AbstractAsyncContextManager[InputWorld]:
    """The input store `delta`, as the installed package provides it, on a claim."""
    given = {**_FILE, "allowEmpty": True}
    return nullcontext(
        DeltaInput(disk, "delta", {**given, "path": "given"}, {**given, "path": "../given"})
    )


def delta_output(disk: Disk) -> AbstractAsyncContextManager[OutputWorld]:
    """The output store `delta`, as the installed package provides it, on a claim."""
    right, wrong = ({**_FILE, "path": path} for path in ("made", "../made"))
    return nullcontext(DeltaOutput(disk, "delta", right, wrong, disk.context().output_dir / "made"))


@asynccontextmanager
async def delta_objects(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The same in a bucket."""
    async with _bucket(disk, "output") as server:
        yield DeltaOutput(
            disk, "delta", server.spec("made"), {"path": "made"}, server.bucket / "made"
        )


@asynccontextmanager
async def iceberg_input(disk: Disk) -> AsyncIterator[InputWorld]:
    """The input store `iceberg`, as the installed package provides it."""
    async with _bucket(disk, "input") as server:
        catalog = iceberg_catalog(server, disk.context().endpoints_dir / "input")
        given = {
            "table": "lake.given",
            "endpoint": server.url,
            "credentialsRef": {"name": "key"},
            "allowEmpty": True,
        }
        yield IcebergInput(disk, "iceberg", given, {**given, "table": "given"}, server, catalog)


@asynccontextmanager
async def iceberg_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The output store `iceberg`, as the installed package provides it."""
    async with _bucket(disk, "output") as server:
        catalog = iceberg_catalog(server, disk.context().endpoints_dir / "output")
        given = {**server.spec("made"), "table": "lake.made"}
        yield IcebergOutput(disk, "iceberg", given, {**given, "path": "../made"}, server, catalog)


def iceberg_catalog(server: S3Server, secret: Path) -> Catalog:
    """A catalog in a database beside the buckets, with a namespace, which the Secret of a store
    names."""
    credentials(secret)
    uri = f"sqlite:///{server.folder}.db"
    (secret / "catalogUri").write_text(uri)
    keys = {
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    catalog = load_catalog("default", type="sql", uri=uri, **{"s3.endpoint": server.url}, **keys)
    catalog.create_namespace_if_not_exists("lake")
    return catalog


INPUTS: dict[str, OpenInputWorld] = {
    "delta": delta_input,
    "iceberg": iceberg_input,
    "file": file_input(".jsonl", ".jsonl", form="jsonl"),
    "krateo": krateo_input,
    "s3": s3_input(".jsonl", ".jsonl"),
    "gcs": cloud_input("gcs", ".jsonl", ".jsonl.zst"),
    "azure": cloud_input("azure", ".jsonl", ".jsonl.zst"),
    "http": http_input(has_ranges=True),
    "sql": sql_input("select a, b from {}.given order by id;"),
    "file-csv-gzip": file_input(".csv", ".csv.gz", form="csv"),
    "file-arrow": file_input(".arrow", ".arrow", form="arrow"),
    "http-spooled": http_input(has_ranges=False),
    "sql-key": sql_input("select * from {}.given -- unordered", key="id"),
    **{
        f"sql-{mode}": sql_input("select a, b from {}.given order by id", pool=mode)
        for mode in MODES
    },
    **{
        f"sql-key-{mode}": sql_input("select * from {}.given", pool=mode, key="id")
        for mode in MODES
    },
    "s3-zstd": s3_input(".jsonl.zst", ".jsonl.zst"),
    "run-file": run_input(file_output),
    "run-file-arrow": run_input(file_output, format="arrow"),
    "run-file-csv": run_input(file_output, format="csv"),
    "run-s3": run_input(s3_output),
    "run-s3-parquet": run_input(s3_output, format="parquet"),
    "run-sql": run_input(sql_output()),
    **{f"run-sql-{mode}": run_input(sql_output(mode)) for mode in MODES},
}


OUTPUTS: dict[str, OpenOutputWorld] = {
    "delta": delta_output,
    "delta-s3": delta_objects,
    "iceberg": iceberg_output,
    "file": file_output,
    "krateo": krateo_output,
    "s3": s3_output,
    "gcs": cloud_output("gcs"),
    "azure": cloud_output("azure"),
    "sql": sql_output(),
    **{f"sql-{mode}": sql_output(mode) for mode in MODES},
}
EXACTLY_ONCE = (
    *("delta", "delta-s3", "iceberg", "file", "s3", "gcs", "azure", "sql"),
    *(f"sql-{mode}" for mode in MODES),
)


def labels(worlds: Iterable[str]) -> Sequence[object]:
    """The worlds as parameters of a fixture; those with a pooler are thorough."""
    thorough = pytest.mark.thorough
    return [pytest.param(one, marks=thorough if one.endswith(MODES) else ()) for one in worlds]
