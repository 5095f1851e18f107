"""The table of values: a column of each kind, through each reader and writer, copied, fed, in a
prompt, chained and retried.

DuckDB reads the input and the results (psycopg those in PostgreSQL), and says whether a value is
another one. A record may have an error instead of a value, and a run may be refused before it sends
a request: both are counted. Nothing else may happen.
"""

import base64
import json
import struct
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from aiohttp import web
from deltalake import write_deltalake
from psycopg.types.json import set_json_loads
from pyarrow import ipc, orc, parquet

from tests.integration.runner.kinds import Kind
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.servers import serving

READERS = ("parquet", "arrow", "orc", "jsonl", "csv", "delta", "sql")
WRITERS = ("jsonl", "csv", "parquet", "arrow", "sql")
WAYS = ("copied", "chained", "fed", "retried", "prompt")

Cell = str | None
"""A value as DuckDB's text."""

_CSV = "all_varchar = true, header = true, nullstr = '', allow_quoted_nulls = false"
"""Texts as they are written; what is in quotes is not null."""


@dataclass
class Echo:
    """A V2 server whose output is its input, in JSON or bytes, and an OpenAI server whose answer is
    the prompt."""

    url: str = ""
    datatype: str = "INT64"
    shape: Sequence[int] = (-1,)
    requests: int = 0

    rejected: int | None = None
    """The row whose requests are rejected."""

    is_binary: bool = True
    """Whether the server takes the values of tensors as bytes."""

    async def describe(self, _: web.Request) -> web.StreamResponse:
        """Return the metadata: the number of the row, and the value."""
        row = {"name": "x", "datatype": "INT64", "shape": [-1]}
        given = {"name": "v", "datatype": self.datatype, "shape": list(self.shape)}
        outputs = [row] if self.datatype == "" else [{**given, "name": "o"}]
        return web.json_response(
            {"name": "echo", "inputs": [row, given][: 1 + bool(self.datatype)], "outputs": outputs}
        )

    async def infer(self, request: web.Request) -> web.StreamResponse:
        """Return the value, or the number of the row if there is none."""
        self.requests += 1
        body = await request.read()
        length = int(request.headers.get("Inference-Header-Content-Length", len(body)))
        head, rest = json.loads(body[:length]), body[length:]
        parts: dict[str, tuple[dict[str, Any], bytes]] = {}
        for one in head["inputs"]:
            size = one.get("parameters", {}).get("binary_data_size", 0)
            parts[one["name"]], rest = (one, rest[:size]), rest[size:]
        row, raw = parts["x"]
        rows = row.get("data") or [value for (value,) in struct.iter_unpack("<q", raw)]
        if self.rejected in rows:
            return web.json_response({"error": "rejected"}, status=400)
        given, raw = parts.get("v", parts["x"])
        output = {
            "name": "o" if "v" in parts else "x",
            "datatype": given["datatype"],
            "shape": given["shape"],
        }
        if "data" in given:
            return web.json_response(
                {"model_name": "echo", "outputs": [{**output, "data": given["data"]}]}
            )
        output["parameters"] = {"binary_data_size": len(raw)}
        text = json.dumps({"model_name": "echo", "outputs": [output]}).encode()
        headers = {
            "Inference-Header-Content-Length": str(len(text)),
            "Content-Type": "application/octet-stream",
        }
        return web.Response(body=text + raw, headers=headers)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Return the prompt."""
        self.requests += 1
        prompt = (await request.json())["messages"][-1]["content"]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": prompt},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        )


@asynccontextmanager
async def echo_server() -> AsyncIterator[Echo]:
    """Start the server on a free port."""
    echo = Echo()

    async def describe_server(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"name": "echo", "extensions": ["binary_tensor_data"] * echo.is_binary}
        )

    async def say_ready(_: web.Request) -> web.StreamResponse:
        return web.json_response({"ready": True})

    async def list_models(_: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": []})

    app = web.Application(client_max_size=1 << 28)
    app.router.add_get("/v2", describe_server)
    app.router.add_get("/v2/models/echo/ready", say_ready)
    app.router.add_get("/v2/models/echo", echo.describe)
    app.router.add_post("/v2/models/echo/infer", echo.infer)
    app.router.add_get("/v1/models", list_models)
    app.router.add_post("/v1/chat/completions", echo.complete)
    async with serving(app) as echo.url:
        yield echo


@dataclass
class Outcome:
    """What became of the values of a kind, by way."""

    equal: int = 0
    errors: int = 0
    refused: str = ""
    """The message, if the run was refused."""

    changed: list[str] = field(default_factory=list)


@dataclass
class Lab:
    """A folder for runs, the servers, and DuckDB."""

    folder: Path
    echo: Echo
    postgres: Postgres | None
    judge: duckdb.DuckDBPyConnection
    runs: int = 0
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    """In names of tables and runs, because several of them share a database."""
    pairs: list[tuple[str, str, str, str, str, list[str]]] = field(default_factory=list)
    """Kind, reader, way, a Parquet file with the input, and the column and the Parquet files of the
    results, for other judges."""

    def machine(self, **contract: Any) -> Machine:  # Any: JSON
        """Return the folders of another run."""
        self.runs += 1
        uid = f"{self.name}-5fe0-4c9e-a8bc-{self.runs:012d}"
        kserve = {"modelName": "echo", "modelUrl": self.echo.url, "protocolVersion": "v2"}
        given = {
            "jobId": uid,
            "runId": uid,
            "jobName": f"inf-values-{self.runs}",
            "kserve": kserve,
            **contract,
        }
        return Machine(self.folder / str(self.runs), contract=given)

    def read(self, query: str, *given: object) -> list[tuple[Any, ...]]:  # Any: a row
        """Execute a query of the judge."""
        return self.judge.execute(query, given or None).fetchall()


# Any: JSON
def write_input(
    lab: Lab, machine: Machine, kind: Kind, reader: str
) -> tuple[list[Cell], dict[str, Any]]:
    """Write a column with the number of each row; return what DuckDB reads of it, and the storage
    object of the input.

    Raises NotImplementedError for a kind that the format does not have.
    """
    if reader == "delta" and kind.arrow == pa.timestamp("ns"):
        raise NotImplementedError  # deltalake 1.6.6 stores microseconds
    column = kind.column
    table = pa.table({"x": pa.array(range(len(column)), pa.int64()), "v": column})
    twin = machine.folder / "twin.parquet"
    parquet.write_table(table, twin)
    query = f"select x, v from read_parquet('{twin}')"  # noqa: S608  own path
    truth: list[Cell] = [
        text
        for (text,) in lab.read(f"select v::varchar from ({query}) order by x")  # noqa: S608
    ]
    path = machine.input / f"rows.{reader}"
    # Any: JSON
    place: dict[str, Any] = {"file": {"claimName": "given", "path": path.name, "format": reader}}
    match reader:
        case "parquet":
            parquet.write_table(table, path)
        case "arrow":
            with ipc.new_file(path, table.schema) as out:
                out.write_table(table)
        case "orc":
            try:
                orc.write_table(table, str(path))
            except pa.ArrowException as error:
                raise NotImplementedError from error
        case "jsonl":
            lab.read(f"copy ({query}) to '{path}' (format json)")
        case "csv":
            lab.read(f"copy ({query}) to '{path}' (format csv, header)")
            read = f"read_csv('{path}', {_CSV})"
            truth = [text for (text,) in lab.read(f"select v from {read} order by x::int")]  # noqa: S608  own path
        case "delta":
            try:
                write_deltalake(str(machine.input / "table"), table)
            except Exception as error:
                raise NotImplementedError from error
            place = {"delta": {"claimName": "given", "path": "table"}}
        case "sql":
            place = _in_postgres(lab, machine, kind, query)
    return truth, place


_POSTGRES = {
    "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer", "BIGINT": "bigint",
    "UTINYINT": "smallint", "USMALLINT": "integer", "UINTEGER": "bigint", "UBIGINT": "numeric(20,0)", "FLOAT": "real",
    "DOUBLE": "double precision", "DECIMAL(5,2)": "numeric(5,2)", "DECIMAL(20,2)": "numeric(20,2)",
    "DECIMAL(38,0)": "numeric(38,0)", "DECIMAL(38,18)": "numeric(38,18)", "DATE": "date", "TIME": "time",
    "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz",
    "VARCHAR": "text", "INTEGER[]": "integer[]", "DOUBLE[]": "double precision[]", "VARCHAR[]": "text[]",
    "TIMESTAMP[]": "timestamp[]", "DECIMAL(20,2)[]": "numeric[]", "FLOAT[]": "real[]", "BLOB": "bytea",
}  # fmt: skip


def _in_postgres(lab: Lab, machine: Machine, kind: Kind, query: str) -> dict[str, Any]:  # Any: JSON
    """Have psycopg insert the values that DuckDB reads."""
    if lab.postgres is None or kind.duckdb not in _POSTGRES:
        raise NotImplementedError
    name = f"given_{lab.name}_{lab.runs}"
    with lab.postgres.connect() as connection:
        connection.execute(f"create table {name} (x bigint, v {_POSTGRES[kind.duckdb]})")
        for row in lab.read(query):
            connection.execute(f"insert into {name} values (%s, %s)", row)  # noqa: S608  own name
    lab.postgres.mount(machine.folder / "endpoints" / "input")
    query = f"select x, v from {name}"  # noqa: S608  own name
    return {"sql": {"credentialsRef": {"name": "database"}, "query": query, "key": "x"}}


def output_of(lab: Lab, machine: Machine, writer: str) -> dict[str, Any]:  # Any: JSON
    """Return the storage object of an output."""
    if writer != "sql":
        return {"file": {"claimName": "made", "path": "out", "format": writer}}
    assert lab.postgres is not None
    lab.postgres.mount(machine.folder / "endpoints" / "output")
    return {"sql": {"credentialsRef": {"name": "database"}, "table": f"made_{lab.name}_{lab.runs}"}}


def results_of(lab: Lab, machine: Machine, kind: Kind, column: str) -> list[tuple[Cell, bool]]:
    """Return a column of the results as the judge reads it, and whether each record has an
    error."""
    label, spec = next(iter(machine.contract["output"].items()))
    if label == "sql":
        assert lab.postgres is not None
        with lab.postgres.connect() as connection:
            # psycopg rounds the numbers of JSON
            set_json_loads(partial(json.loads, parse_float=str), connection)
            query = f"select {column}, error is not null from {spec['table']} order by index"  # noqa: S608  own names
            rows = connection.execute(query).fetchall()
        return [(_cast(lab, value, kind), bad) for value, bad in rows]
    parts = [str(machine.run_folder / one["file"]) for one in machine.manifest["parts"]]
    match spec["format"]:
        case "parquet":
            source = f"read_parquet({parts})"
        case "arrow":
            # DuckDB reads no Arrow files, and not all types of Arrow
            twin = machine.folder / "results.parquet"
            parquet.write_table(
                pa.concat_tables([ipc.open_file(part).read_all() for part in parts]), twin
            )
            source = f"read_parquet('{twin}')"
        case "jsonl":
            lines = [line for part in parts for line in Path(part).read_text().splitlines()]
            return [
                (_cast_json(lab, line, column, kind), "error" in json.loads(line)) for line in lines
            ]
        case _:
            query = f"select {column}, error is not null from read_csv({parts}, {_CSV}) order by index::int"  # noqa: S608
            cells = lab.read(query)
            return [(_cast_text(lab, text, kind), bad) for text, bad in cells]
    try:
        return lab.read(
            f"select {column}::{kind.duckdb}::varchar, error is not null from {source} order by index"  # noqa: S608
        )
    except duckdb.Error:
        rows = lab.read(f"select {column}, error is not null from {source} order by index")  # noqa: S608  own columns
        return [(_cast(lab, value, kind), bad) for value, bad in rows]


def _cast(lab: Lab, value: Any, kind: Kind) -> Cell:  # Any: what a database returns
    """Cast a value of Python, which is the text of JSON for types that a database lacks."""
    if isinstance(value, dict | list) and kind.nested:
        return _cast_json(lab, json.dumps({"v": value}, default=str), "v", kind)
    if isinstance(value, str) and kind.nested:
        return _cast_json(lab, f'{{"v":{value}}}', "v", kind)
    if isinstance(value, str) and kind.duckdb == "BLOB":
        return _cast_json(lab, json.dumps({"v": value}), "v", kind)
    return _one(lab, f"select ?::{kind.duckdb}::varchar", value)


def _cast_json(lab: Lab, line: str, column: str, kind: Kind) -> Cell:
    """Cast a member of a line."""
    if kind.duckdb == "BLOB":
        value = json.loads(line).get(column)
        content = (
            base64.b64decode(value["b64"]) if isinstance(value, dict) else value and value.encode()
        )
        return _one(lab, "select ?::blob::varchar", content)
    arrow = "->" if kind.nested else "->>"
    # DuckDB rounds the numbers of JSON, and casts texts exactly
    exact = json.dumps(json.loads(line, parse_float=str))
    return _one(lab, f"select ((?::json){arrow}'$.{column}')::{kind.duckdb}::varchar", exact)


def _cast_text(lab: Lab, text: str | None, kind: Kind) -> Cell:
    """Cast a cell of CSV, which is JSON text for kinds that have no text of their own."""
    if text is None or kind.duckdb == "VARCHAR":
        return text
    if kind.nested or kind.duckdb == "BLOB":
        return _cast_json(lab, f'{{"v":{text}}}', "v", kind)
    return _one(lab, f"select ?::{kind.duckdb}::varchar", text)


def _one(lab: Lab, query: str, value: object) -> Cell:
    try:
        [(found,)] = lab.judge.execute(query, [value]).fetchall()
    except duckdb.Error as error:
        return f"{value!r}: {error}"[:200]
    return None if found is None else str(found)


def compare(truth: Sequence[Cell], found: Sequence[tuple[Cell, bool]]) -> Outcome:
    """Compare the results with what is right."""
    outcome = Outcome()
    if len(truth) != len(found):
        outcome.changed.append(f"{len(found)} of {len(truth)} records")
    for right, (cell, is_error) in zip(truth, found, strict=False):
        if is_error and cell in (None, right):
            outcome.errors += 1
        elif cell == right:
            outcome.equal += 1
        else:
            outcome.changed.append(
                f"{right!r} became {cell!r}{' beside an error' if is_error else ''}"
            )
    return outcome


async def outcomes_of(lab: Lab, kind: Kind, reader: str, writer: str) -> dict[str, Outcome]:
    """Execute the runs of a kind, and return what became of it by way; empty if the format lacks
    the kind."""
    machine = lab.machine()
    try:
        truth, place = write_input(lab, machine, kind, reader)
    except NotImplementedError:
        return {}
    trial = _Trial(lab, kind, reader, writer, machine, truth, place)
    await trial.copy_and_chain()
    if reader != "sql":  # its rows are fed and copied with the types of the other readers
        if kind.fed and not (reader == "csv" and kind.nested):
            await trial.feed_and_retry()
        await trial.ask()
    return trial.outcomes


@dataclass
class _Trial:
    """One kind, as one reader has written it and one writer writes it again."""

    lab: Lab
    kind: Kind
    reader: str
    writer: str
    given: Machine
    truth: list[Cell]
    place: dict[str, Any]  # Any: JSON
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def copied(self) -> Kind:
        """What copies are compared as: CSV has only texts, and DuckDB writes bytes to JSON as
        texts."""
        is_text = self.reader == "csv" or (self.reader == "jsonl" and self.kind.duckdb == "BLOB")
        return replace(self.kind, duckdb="VARCHAR") if is_text else self.kind

    async def copy_and_chain(self) -> None:
        """Copy the column, and copy it again from the results."""
        self.lab.echo.datatype, self.lab.echo.rejected = "", None
        copying = {
            "passThroughColumns": ["v"],
            "output": output_of(self.lab, self.given, self.writer),
        }
        self.given.contract |= {"input": self.place, "tensors": _TENSORS_OF_ROWS, **copying}
        ended = await self.execute("copied", self.given)
        if ended.code != 0 or ended.result.output is None:
            return
        chained = self.lab.machine(passThroughColumns=["v"], input={"run": {"name": "first"}})
        _mount(chained, self.given, "output")
        earlier = {key: self.given.contract[key] for key in ("runId", "jobName", "output")}
        earlier |= {"name": "first", "manifestSha256": ended.result.output.sha256}
        chained.contract |= {
            "inputRun": earlier,
            "output": output_of(self.lab, chained, self.writer),
        }
        chained.contract["tensors"] = {"inputs": [{"name": "x", "columns": ["prediction"]}]}
        await self.execute("chained", chained)

    async def feed_and_retry(self) -> None:
        """Feed the column to a model that returns it and rejects the first row, and retry the run
        with one that does not."""
        echo = self.lab.echo
        echo.datatype, echo.shape, echo.rejected, echo.is_binary = (
            self.kind.fed,
            self.kind.shape,
            0,
            self.writer != "jsonl",
        )
        fed = self.lab.machine(input=self.place)
        _mount(fed, self.given, "input")
        fed.contract["output"] = output_of(self.lab, fed, self.writer)
        fed.contract["tensors"] = {
            "inputs": [{"name": "x", "columns": ["x"]}, {"name": "v", "columns": ["v"]}]
        }
        ended = await self.execute("fed", fed)
        echo.rejected = None
        if ended.code == 0 and self.writer != "sql":
            fed.retry(ended)
            await self.execute("retried", fed)

    async def ask(self) -> None:
        """Put the column into a prompt, which the model returns."""
        prompt = self.lab.machine(input=self.place, request={"prompt": "{{ v }}"})
        _mount(prompt, self.given, "input")
        prompt.contract["kserve"] = {
            "modelName": "m",
            "modelUrl": self.lab.echo.url,
            "protocolVersion": "openai",
        }
        prompt.contract["output"] = output_of(self.lab, prompt, "jsonl")
        await self.execute("prompt", prompt)

    async def execute(self, way: str, machine: Machine) -> Ended:
        """Execute a run, and record what became of the values."""
        before = self.lab.echo.requests
        ended = await machine.pod()
        if ended.code == 0:
            self.outcomes[way] = compare(self.right(way), self.found(way, machine))
        elif ended.code != 1 and (
            self.lab.echo.requests == before or ended.message.endswith("the run was not committed")
        ):
            self.outcomes[way] = Outcome(refused=ended.message)
        else:
            self.outcomes[way] = Outcome(
                changed=[f"exit code {ended.code} after requests: {ended.message}"]
            )
        return ended

    def right(self, way: str) -> list[Cell]:
        """Return what a way has to lead to: numbers that are fed are compared as such, and null is
        nothing in a prompt."""
        if way == "prompt":
            return ["" if one is None else one for one in self.truth]
        if way in ("fed", "retried") and self.reader == "csv":
            return [
                _one(self.lab, f"select ?::{self.kind.duckdb}::varchar", text)
                for text in self.truth
            ]
        return self.truth

    def found(self, way: str, machine: Machine) -> list[tuple[Cell, bool]]:
        """Return the values in the results, and whether their records have errors."""
        if way == "prompt":
            parts = [machine.run_folder / one["file"] for one in machine.manifest["parts"]]
            lines = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
            return [(_of_prompt(self.lab, line, self.copied), "error" in line) for line in lines]
        is_copied = way in ("copied", "chained")
        column = "v" if is_copied else "prediction"
        if self.reader == self.writer == "parquet":
            files = [str(machine.run_folder / one["file"]) for one in machine.manifest["parts"]]
            twin = str(self.given.folder / "twin.parquet")
            self.lab.pairs.append((self.kind.name, self.reader, way, twin, column, files))
        return results_of(self.lab, machine, self.copied if is_copied else self.kind, column)


_TENSORS_OF_ROWS = {"inputs": [{"name": "x", "columns": ["x"]}]}


def _mount(machine: Machine, earlier: Machine, place: str) -> None:
    """Mount the input or the output of an earlier run as the input."""
    for folder, source in (("input", place), ("endpoints/input", f"endpoints/{place}")):
        (machine.folder / folder).rmdir()
        (machine.folder / folder).symlink_to(earlier.folder / source)


def _of_prompt(lab: Lab, line: Mapping[str, Any], kind: Kind) -> Cell:  # Any: JSON
    if "error" in line:
        return None
    text = line["prediction"]["text"]
    if text == "":
        return ""
    return (
        _cast_json(lab, f'{{"v":{text}}}', "v", kind)
        if kind.nested
        else _one(lab, f"select ?::{kind.duckdb}::varchar", text)
    )
