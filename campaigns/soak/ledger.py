"""Where each store keeps the results of a run, as a ledger: one entry per stored result, in the
order of the store."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import orjson

from campaigns.interop.s3_servers import object_server
from inferrun.plugins import Output
from tests.integration.runner.clouds import clouds
from tests.integration.runner.pgbouncer import pgbouncer
from tests.integration.runner.pods import Machine
from tests.integration.runner.postgres_server import postgres_server
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.servers import data_handler

RECORDS = 600


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored result."""

    index: int
    custom_id: str
    prediction: float


@dataclass(frozen=True, slots=True)
class Account:
    """A store with its input."""

    label: str
    prepare: Callable[[Machine], None]
    """Describe input and output in the contract of a new run, and mount what they need."""

    entries: Callable[[Machine, Output], Sequence[Entry]]
    """All results of the run that a reader of the output would use, once it is committed."""

    events: Callable[[], int] = lambda: 0
    """How many requests the store has received, besides those of the model."""


def lines() -> str:
    """The input: each record has a key of its own."""
    return "".join(
        f'{{"custom_id":"key-{index:05}","inputs":[{index},0.5]}}\n' for index in range(RECORDS)
    )


def differences(entries: Sequence[Entry]) -> list[str]:
    """What is missing, stored twice, out of order or wrong."""
    found: list[str] = []
    keys = [one.index for one in entries]
    if keys != list(range(RECORDS)):
        missing, twice = set(range(RECORDS)) - set(keys), len(keys) - len(set(keys))
        found.append(
            f"{len(missing)} missing, {twice} stored twice, in order: {keys == sorted(keys)}"
        )
    wrong = [
        one
        for one in entries
        if one.prediction != one.index + 0.5 or one.custom_id not in ("", f"key-{one.index:05}")
    ]
    if wrong:
        found.append(f"{len(wrong)} wrong, such as {wrong[0]}")
    return found


def _entry(line: bytes) -> Entry:
    result = orjson.loads(line)
    return Entry(result["index"], result["custom_id"], result["prediction"])


def _run_folder(root: Path, machine: Machine) -> Path:
    return root / str(machine.contract["jobName"])


def _committed_lines(folder: Path) -> list[Entry]:
    """The results in the parts that the manifest lists."""
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    return [
        _entry(line)
        for part in manifest["parts"]
        for line in (folder / part["file"]).read_bytes().splitlines()
    ]


@asynccontextmanager
async def file_account(_: Path) -> AsyncIterator[Account]:
    """Files on claims."""

    def prepare(machine: Machine) -> None:
        (machine.input / "rows.jsonl").write_text(lines())
        machine.contract["input"] = {"file": {"claimName": "given", "path": "rows.jsonl"}}
        machine.contract["output"] = {"file": {"claimName": "made", "path": "out"}}

    def entries(machine: Machine, _: Output) -> Sequence[Entry]:
        folder = _run_folder(machine.output / "out", machine)
        parts = sorted((folder / "predictions").iterdir())
        assert {f"predictions/{path.name}" for path in parts} == {
            part["file"] for part in orjson.loads((folder / "manifest.json").read_bytes())["parts"]
        }
        return _committed_lines(folder)

    yield Account("file", prepare, entries)


@asynccontextmanager
async def s3_account(folder: Path) -> AsyncIterator[Account]:
    """Objects in a bucket."""
    async with s3_server(folder / "s3") as server:

        def prepare(machine: Machine) -> None:
            (server.bucket / "rows.jsonl").write_text(lines())
            machine.contract["input"] = {"s3": server.spec("rows.jsonl")}
            machine.contract["output"] = {"s3": server.spec("out")}
            for side in ("input", "output"):
                credentials(machine.folder / "endpoints" / side)

        def entries(machine: Machine, _: Output) -> Sequence[Entry]:
            return _committed_lines(_run_folder(server.bucket / "out", machine))

        yield Account("s3", prepare, entries)


@asynccontextmanager
async def server_account(folder: Path, *, name: str) -> AsyncIterator[Account]:
    """Objects at an S3 server of others, which is compiled first."""
    with object_server(name, folder / "servers") as server:

        def prepare(machine: Machine) -> None:
            obstore.put(server.store, "rows.jsonl", lines().encode())
            machine.contract["input"] = {"s3": server.spec("rows.jsonl")}
            machine.contract["output"] = {"s3": server.spec("out")}
            for side in ("input", "output"):
                server.mount(machine.folder / "endpoints" / side)

        def entries(machine: Machine, _: Output) -> Sequence[Entry]:
            root = f"out/{machine.contract['jobName']}"
            manifest = orjson.loads(
                bytes(obstore.get(server.store, f"{root}/manifest.json").bytes())
            )
            parts = [
                bytes(obstore.get(server.store, f"{root}/{part['file']}").bytes())
                for part in manifest["parts"]
            ]
            return [_entry(line) for part in parts for line in part.splitlines()]

        yield Account(name, prepare, entries)


@asynccontextmanager
async def cloud_account(folder: Path, *, label: str) -> AsyncIterator[Account]:
    """Objects of another cloud."""
    with clouds() as started:
        bucket = started.bucket(label)

        def prepare(machine: Machine) -> None:
            given = folder / "given"
            given.mkdir(exist_ok=True)
            (given / "rows.jsonl").write_text(lines())
            bucket.upload(given)
            machine.contract["input"] = {label: bucket.spec("rows.jsonl")}
            machine.contract["output"] = {label: bucket.spec("out")}
            for side in ("input", "output"):
                bucket.mount(machine.folder / "endpoints" / side)

        def entries(machine: Machine, _: Output) -> Sequence[Entry]:
            return _committed_lines(_run_folder(bucket.download(folder / "made") / "out", machine))

        yield Account(label, prepare, entries)


@asynccontextmanager
async def sql_account(_: Path, *, pool: str = "") -> AsyncIterator[Account]:
    """Rows of a table, through a pooler of this mode unless it is empty."""
    with (
        postgres_server() as started,
        pgbouncer(started, pool) if pool else nullcontext(started) as server,
    ):
        server.execute(
            "create table given (id int primary key, custom_id text, a float8, b float8)"
        )
        server.execute(
            "insert into given select n, 'key-' || lpad(n::text, 5, '0'), n, 0.5 from generate_series(0, %s) n",
            RECORDS - 1,
        )

        def prepare(machine: Machine) -> None:
            reference: dict[str, Any] = {"credentialsRef": {"name": "database"}}  # Any: JSON
            query = {"query": "select id, custom_id, a, b from given", "key": "id"}
            machine.contract["input"] = {"sql": {**reference, **query}}
            machine.contract["output"] = {"sql": {**reference, "table": "predictions"}}
            for side in ("input", "output"):
                server.mount(machine.folder / "endpoints" / side)

        def entries(machine: Machine, _: Output) -> Sequence[Entry]:
            rows = server.execute(
                "select index, custom_id, prediction from predictions where run = %s order by index",
                machine.contract["runId"],
            )
            return [Entry(*row) for row in rows]

        yield Account("sql", prepare, entries)


@asynccontextmanager
async def krateo_account(_: Path) -> AsyncIterator[Account]:
    """A data handler, which may store rows under several Pods: the result names the one whose rows
    are complete."""
    async with data_handler() as handler:
        handler.rows = [[index, 0.5] for index in range(RECORDS)]

        def prepare(machine: Machine) -> None:
            handler.stored.clear()
            for side in ("input", "output"):
                machine.endpoint(side, {"server-url": handler.url, "token": "secret"})
                api = {
                    "path": f"/compute/{side}",
                    "verb": "POST",
                    "endpointRef": {"name": "handler"},
                }
                machine.contract[side] = {"krateo": {"api": api}}

        def entries(_: Machine, output: Output) -> Sequence[Entry]:
            pod = output.manifest.removeprefix("pod_uid=")
            bodies = [
                orjson.loads(body["predictions"])
                for body in handler.stored
                if body["pod_uid"] == pod
            ]
            found = [value for body in bodies for value in body]
            return [Entry(index, "", value) for index, value in enumerate(found)]

        yield Account(
            "krateo",
            prepare,
            entries,
            events=lambda: handler.options + len(handler.asked) + len(handler.stored),
        )


OTHERS: dict[str, Callable[[Path], AbstractAsyncContextManager[Account]]] = {
    name: partial(server_account, name=name) for name in ("seaweedfs", "minio", "versitygw")
}
"""Only if they are asked for: SeaweedFS and MinIO are compiled for minutes."""

ACCOUNTS: dict[str, Callable[[Path], AbstractAsyncContextManager[Account]]] = {
    "file": file_account,
    "s3": s3_account,
    "gcs": partial(cloud_account, label="gcs"),
    "azure": partial(cloud_account, label="azure"),
    "sql": sql_account,
    "sql-pooled": partial(sql_account, pool="transaction"),
    "krateo": krateo_account,
}
