"""What the conformance suites need to know of a store: how its far side is filled and looked at. One world per store.

A world makes storage objects and surroundings; the store itself is always found by its entry point, as the runner finds it.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from inferrun.contract import Contract, Model
from runner import registry
from runner.seams import OutputStore, Source, Surroundings
from runner.settings import Settings
from tests.integration.runner.servers import Handler, data_handler

Rows = Sequence[Sequence[object]]
RUN = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"


@dataclass(frozen=True, slots=True)
class Disk:
    """Where things are in a test."""

    folder: Path

    def surroundings(
        self, *, run: str = RUN, pod: str = "pod-1", limits: Mapping[str, int] | None = None
    ) -> Surroundings:
        """What a Pod of a run has around it."""
        places = {name: self.folder / name for name in ("input", "output", "endpoints", "tmp")}
        for place in places.values():
            place.mkdir(exist_ok=True)
        settings = Settings(
            input_dir=places["input"],
            output_dir=places["output"],
            endpoints_dir=places["endpoints"],
            spool_dir=places["tmp"],
            pod_uid=pod,
            retry_seconds=0,
            **(limits or {}),
        )
        contract = Contract(job_id=run, run_id=run, job_name=f"inf-run-{run[:8]}", kserve=Model(model_name="iris"))
        return Surroundings(contract=contract, settings=settings, format_named=registry.record_format)


class InputWorld(Protocol):
    """The far side of an input store."""

    label: str
    wrong: dict[str, Any]  # Any: a storage object
    """A storage object that the store must refuse."""

    def fill(self, rows: Rows) -> None:
        """Make these the input's rows."""
        ...

    def open(self, **limits: int) -> AbstractAsyncContextManager[Source]:
        """The store, opened as a Pod does."""
        ...

    def open_wrong(self) -> AbstractAsyncContextManager[Source]:
        """The store, with the wrong object."""
        ...


class OutputWorld(Protocol):
    """The far side of an output store."""

    label: str
    wrong: dict[str, Any]  # Any: a storage object

    def open(self, *, run: str = RUN, pod: str = "pod-1") -> AbstractAsyncContextManager[OutputStore]:
        """The store, opened as a Pod of a run does."""
        ...

    def open_wrong(self) -> AbstractAsyncContextManager[OutputStore]:
        """The store, with the wrong object."""
        ...

    def stored(self, *, run: str = RUN) -> list[object]:
        """The predictions that the far side holds of a run, in the input's order."""
        ...


@dataclass
class _World:
    """What all worlds have in common."""

    disk: Disk
    label: str
    right: dict[str, Any]  # Any: a storage object
    wrong: dict[str, Any]  # Any: a storage object


class _Input(_World):
    def open(self, **limits: int) -> AbstractAsyncContextManager[Source]:
        return registry.input_store(self.label)(self.right, self.disk.surroundings(limits=limits))

    def open_wrong(self) -> AbstractAsyncContextManager[Source]:
        return registry.input_store(self.label)(self.wrong, self.disk.surroundings())


class _Output(_World):
    def open(self, *, run: str = RUN, pod: str = "pod-1") -> AbstractAsyncContextManager[OutputStore]:
        return registry.output_store(self.label)(self.right, self.disk.surroundings(run=run, pod=pod))

    def open_wrong(self) -> AbstractAsyncContextManager[OutputStore]:
        return registry.output_store(self.label)(self.wrong, self.disk.surroundings())


class FileInput(_Input):
    """JSON lines in two files of a folder."""

    def fill(self, rows: Rows) -> None:
        folder = self.disk.surroundings().settings.input_dir / "given"
        folder.mkdir(exist_ok=True)
        half = len(rows) // 2
        for name, part in (("a.jsonl", rows[:half]), ("b.jsonl", rows[half:])):
            (folder / name).write_bytes(b"".join(orjson.dumps(list(row)) + b"\n" for row in part))


class FileOutput(_Output):
    """A folder on a claim."""

    def stored(self, *, run: str = RUN) -> list[object]:
        parts = sorted(self.disk.surroundings().settings.output_dir.glob(f"made/inf-run-{run[:8]}/predictions/*"))
        lines = [orjson.loads(line) for part in parts for line in part.read_bytes().splitlines()]
        assert [line["index"] for line in lines] == list(range(len(lines)))
        return [line["prediction"] for line in lines]


@dataclass
class KrateoInput(_Input):
    """A data handler on loopback."""

    handler: Handler

    def fill(self, rows: Rows) -> None:
        self.handler.rows = [list(row) for row in rows]  # type: ignore[arg-type]  # a test may give texts


@dataclass
class KrateoOutput(_Output):
    """A data handler on loopback."""

    handler: Handler

    def stored(self, *, run: str = RUN) -> list[object]:
        bodies = [body for body in self.handler.stored if body["job_uid"] == run]
        return [value for body in bodies for value in orjson.loads(body["predictions"])]


class SqliteInput(_Input):
    """A table of a database on a claim."""

    def fill(self, rows: Rows) -> None:
        with sqlite3.connect(self.disk.surroundings().settings.input_dir / "data.db") as connection:
            connection.execute("drop table if exists given")
            connection.execute("create table given (id integer primary key, a, b)")
            values = [(place, *row) for place, row in enumerate(rows)]
            connection.executemany("insert into given values (?, ?, ?)", values)
        connection.close()


class SqliteOutput(_Output):
    """Tables of a database on a claim."""

    def stored(self, *, run: str = RUN) -> list[object]:
        connection = sqlite3.connect(self.disk.surroundings().settings.output_dir / "data.db")
        rows = connection.execute("select value from prediction where run = ? order by place", (run,)).fetchall()
        connection.close()
        return [orjson.loads(value) for (value,) in rows]


_API = {"endpointRef": {"name": "handler-endpoint"}, "verb": "POST"}
_FILE = {"claimName": "claim"}

OpenInputWorld = Callable[[Disk], AbstractAsyncContextManager[InputWorld]]
OpenOutputWorld = Callable[[Disk], AbstractAsyncContextManager[OutputWorld]]


@asynccontextmanager
async def file_input(disk: Disk) -> AsyncIterator[InputWorld]:
    """The built-in store `file`, reading."""
    yield FileInput(disk, "file", {**_FILE, "path": "given"}, {**_FILE, "path": "../given"})


@asynccontextmanager
async def file_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The built-in store `file`, writing."""
    yield FileOutput(disk, "file", {**_FILE, "path": "made"}, {**_FILE, "path": "/made"})


@asynccontextmanager
async def krateo_input(disk: Disk) -> AsyncIterator[InputWorld]:
    """The built-in store `krateo`, reading."""
    async with data_handler() as handler:
        _mount(disk, "input", handler)
        right = {"api": {**_API, "path": "/compute/input"}}
        yield KrateoInput(disk, "krateo", right, {"api": {**_API, "verb": "FETCH"}}, handler)


@asynccontextmanager
async def krateo_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The built-in store `krateo`, writing."""
    async with data_handler() as handler:
        _mount(disk, "output", handler)
        right = {"api": {**_API, "path": "/compute/output"}}
        yield KrateoOutput(disk, "krateo", right, {"api": {"path": "/compute/output"}}, handler)


@asynccontextmanager
async def sqlite_input(disk: Disk) -> AsyncIterator[InputWorld]:
    """The store of the foreign package, reading."""
    yield SqliteInput(disk, "sqlite", {"path": "data.db", "table": "given"}, {"path": "data.db", "table": "a; b"})


@asynccontextmanager
async def sqlite_output(disk: Disk) -> AsyncIterator[OutputWorld]:
    """The store of the foreign package, writing."""
    yield SqliteOutput(disk, "sqlite", {"path": "data.db"}, {})


def _mount(disk: Disk, side: str, handler: Handler) -> None:
    folder = disk.surroundings().settings.endpoints_dir / side
    folder.mkdir()
    (folder / "server-url").write_text(handler.url)


INPUTS: dict[str, OpenInputWorld] = {"file": file_input, "krateo": krateo_input, "sqlite": sqlite_input}
OUTPUTS: dict[str, OpenOutputWorld] = {"file": file_output, "krateo": krateo_output, "sqlite": sqlite_output}
EXACTLY_ONCE = ("file", "sqlite")
