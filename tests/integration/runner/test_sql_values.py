"""Each type of PostgreSQL, copied by each writer, fed and in prompts: the value equals what psycopg
reads, or is null and an error.

Where Python has no type, or psycopg's loses something as of intervals, the value is the text of the
server.
"""

import json
import struct
import uuid
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import psycopg
import pyarrow.parquet
import pytest
from aiohttp import web
from psycopg.types import TypeInfo
from psycopg.types.string import TextLoader

from inferrun.results import read_results
from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.test_reading_results import login, run_of

GOOD: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int2": ("-32768", "32767"),
    "int4": ("-2147483648", "2147483647"),
    "int8": ("-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "float4": ("0.1", "3.4e38", "1e-45"),
    "float8": ("0.1", "1e300", "5e-324"),
    "numeric": ("1.50", "123456789012345678901234567890.123456789", "-0.1"),
    "numeric(38,10)": ("1234567890123456789012345678.0123456789", "0.1"),
    "numeric(60,30)": ("0.123456789012345678901234567891",),
    "numeric(2,-2)": ("1234",),
    "text": ("", 'é "q" \\N\t\\', "two\nlines"),
    "varchar(9)": ("ab ",),
    "char(5)": ("ab", ""),
    '"char"': ("a",),
    "name": ("x",),
    "bytea": (r"\x00ff0a", r"\x41", r"\x"),
    "date": ("0001-01-01", "9999-12-31", "1582-10-10"),
    "time": ("00:00", "23:59:59.999999"),
    "timestamp": ("0001-01-01", "9999-12-31 23:59:59.999999", "2026-11-23 12:30"),
    "timestamptz": (
        "0001-01-01 00:00:00+00",
        "9999-12-31 23:59:59.999999+00",
        "2026-11-23 12:30:00.1+02",
    ),
    "timetz": ("12:30:00.123456+02",),
    "interval": ("1 mon 2 days 03:04:05.678", "-1 year"),
    "uuid": ("00000000-0000-4000-8000-00000000000a",),
    "json": ('{"a": 123456789012345678901234567890, "b": [null, 0.5]}', '"x\\u0000"'),
    "jsonb": ('{"a": 123456789012345678901234567890}', '"text"', "0.1"),
    "int4[]": ("{1,NULL,3}", "{}", "[0:1]={1,2}"),
    "float4[]": ("{0.1,NULL}",),
    "numeric(8,2)[]": ("{1.50,NaN}",),
    "text[]": ('{a,NULL,"NULL",""}',),
    "bytea[]": (r'{"\\x00ff",NULL}',),
    "char(3)[]": ("{a,bcd}",),
    "timestamptz[]": ('{"2026-11-23 12:30:00+02",NULL}',),
    "uuid[]": ("{00000000-0000-4000-8000-00000000000a}",),
    "jsonb[]": ('{"{\\"a\\": [1]}",NULL}',),
    "inet[]": ("{10.0.0.1,10.0.0.0/8,NULL}",),
    "mood[]": ("{sad,NULL}",),
    "mood": ("it's",),
    "pair": ('(1,"a,""b",0.1)',),
    "dnum": ("12.34",),
    "hstore": ("a=>1",),
    "citext": ("AbC",),
    "money": ("5.10",),
    "oid": ("4294967295",),
    "inet": ("10.0.0.1", "10.0.0.1/24", "::1"),
    "cidr": ("10.0.0.0/8",),
    "macaddr": ("08:00:2b:01:02:03",),
    "bit(4)": ("1010",),
    "varbit": ("", "1"),
    "xml": ('<?xml version="1.0" encoding="utf-8"?><a>ü</a>',),
    "point": ("(0.1,0.2)",),
    "box": ("((0,0),(1,1))",),
    "int4range": ("[1,10)", "empty"),
    "tstzrange": ('["2020-01-01 00:00:00+00",)',),
    "int4multirange": ("{[1,2),[5,6)}",),
    "tsvector": ("a fat cat",),
    "pg_lsn": ("16/B374D848",),
}
"""Values of each type, as the server reads them."""

LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "numeric(38,10)": ("NaN",),
    "date": ("infinity", "-infinity", "0001-12-31 BC", "10000-01-01"),
    "time": ("24:00:00",),
    "timestamp": ("infinity", "0001-12-31 23:59:59.999999 BC", "294276-12-31 23:59:59.999999"),
    "timestamptz": ("-infinity", "10000-01-01 00:00:00+00"),
    "int4[]": ("{{1,2},{3,4}}",),
    "text[]": ("{{a},{b}}",),
    "mood[]": ("{{sad},{sad}}",),
    "inet[]": ("{{10.0.0.1}}",),
    "timestamptz[]": ("{infinity}",),
}
"""Values that cannot be read: each is an error of its record."""

AS_TEXT: Final = (
    "interval",
    "timetz",
    "oid",
    "inet",
    "cidr",
    "int4range",
    "tstzrange",
    "int4multirange",
)
"""Types whose values in Python are not what the server shows."""

NOT_FED: Final = (
    "bool",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "json",
    "jsonb",
)
"""Types that tensors have in other forms, or that are named as such that feed none."""

TYPES: Final = tuple(GOOD)
ROWS: Final = max(map(len, GOOD.values()))


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> Postgres:
    """A table `every` with a column for each type; rows from 100 have one value that is lacking."""
    for text in (
        "create extension hstore; create extension citext; create type mood as enum ('sad', 'it''s')",
        "create type pair as (a int, b text, c float8); create domain dnum as numeric(10,2)",
        f"create table every (n int primary key, {', '.join(f'c{at} {kind}' for at, kind in enumerate(TYPES))})",
    ):
        postgres.execute(text)
    for row in range(ROWS):
        values = [texts[row % len(texts)] for texts in GOOD.values()]
        marks = ", ".join(f"%s::{kind}" for kind in TYPES)
        postgres.execute(f"insert into every values ({row}, {marks})", *values)  # noqa: S608  own types
    lacking = [(kind, text) for kind, texts in LACKING.items() for text in texts]
    for row, (kind, text) in enumerate(lacking, 100):
        postgres.execute(
            f"insert into every (n, c{TYPES.index(kind)}) values ({row}, %s::{kind})",  # noqa: S608
            text,
        )
    return postgres


@pytest.fixture
def machine(file: Machine, server: Postgres) -> Machine:
    """A run that reads the table."""
    for side in ("input", "output"):
        server.mount(file.folder / "endpoints" / side)
    uid = str(uuid.uuid4())
    file.contract |= {"jobId": uid, "runId": uid}
    file.contract["input"] = {
        "sql": {"credentialsRef": {"name": "d"}, "query": "select * from every", "key": "n"}
    }
    file.contract["tensors"] = {"inputs": [{"columns": ["n"]}]}
    return file


# Any: what psycopg has
def read_by_psycopg(server: Postgres, *, as_text: bool = False) -> dict[int, list[Any]]:
    """The rows; without those values that psycopg cannot read. `as_text`: each as the server shows
    it."""
    found = dict[int, list[Any]]()
    with server.connect() as connection:
        info = TypeInfo.fetch(connection, "mood")
        assert info
        info.register(connection)
        for name in (
            [row[0] for row in connection.execute("select oid from pg_type")]
            if as_text
            else AS_TEXT
        ):
            connection.adapters.register_loader(name, TextLoader)
        for (row,) in connection.execute("select n from every order by n").fetchall():
            cells = list[Any]()
            for at in range(len(TYPES)):
                try:
                    [cell] = connection.execute(
                        f"select c{at} from every where n = {row}"  # noqa: S608
                    ).fetchone() or [None]
                except psycopg.DataError:
                    cell = None
                cells.append(cell)
            found[int(row)] = cells
    return found


def is_equal(cell: Any, value: Any) -> bool:  # noqa: PLR0911  one case per type; Any: JSON, what psycopg has
    """Whether a value in results is the one that psycopg has read."""
    if value is None or cell is None:
        return cell is value
    if isinstance(value, list):
        return len(cell) == len(value) and all(map(is_equal, cell, value))
    match value:
        case bool():
            return cell is value
        case float() if isinstance(cell, float):
            return cell == value
        case Decimal():
            return str(Decimal(cell)) == str(value) or (
                not value.is_nan() and Decimal(cell) == value
            )
        case bytes():
            found = (
                cell
                if isinstance(cell, bytes)
                else b64decode(cell["b64"])
                if isinstance(cell, dict)
                else cell.encode()
            )
            return bool(found == value)
        case datetime() if isinstance(cell, str):
            return datetime.fromisoformat(cell) == value
        case date() | time() if isinstance(cell, str):
            return type(value).fromisoformat(cell) == value
        case uuid.UUID():
            return uuid.UUID(str(cell)) == value
        case dict() if isinstance(cell, str):
            return bool(json.loads(cell) == value)
    return bool(cell == value)


def check(
    server: Postgres,
    rows: Mapping[int, tuple[list[Any], bool]],
    but: Sequence[str] = (),  # Any: JSON
) -> None:
    """Compare results, by row with their cells and whether they are errors, with what psycopg
    reads; `but` types."""
    expected = read_by_psycopg(server)
    assert rows.keys() == expected.keys()
    for row, (cells, is_error) in rows.items():
        assert is_error == (row >= 100), row
        for kind, cell, value in zip(TYPES, cells, expected[row], strict=True):
            if kind in but:
                continue
            if is_error:
                assert cell is None, (row, kind, cell)
            elif kind in ("json", "jsonb") and isinstance(cell, str) and cell != value:
                assert json.loads(cell) == value, (row, kind, cell, value)
            elif kind.startswith("float4"):  # the same 32 bits
                assert _narrow(cell) == _narrow(value), (row, kind, cell, value)
            else:
                assert is_equal(cell, value), (row, kind, cell, value)


def _narrow(value: Any) -> Any:  # Any: a number, or a list of these and nulls
    if isinstance(value, list):
        return [_narrow(one) for one in value]
    return None if value is None else struct.pack("f", value)


async def test_each_type_is_copied_to_json_lines(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    machine.contract["passThroughColumns"] = ["n", *(f"c{at}" for at in range(len(TYPES)))]
    await machine.success()
    good = {line["n"]: line for line in machine.results if not line.get("error")}
    bad = {line["n"]: line for line in machine.errors}
    check(
        server,
        {
            row: ([line[f"c{at}"] for at in range(len(TYPES))], row in bad)
            for row, line in {**good, **bad}.items()
        },
    )


async def test_each_type_is_copied_to_parquet(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    machine.contract["passThroughColumns"] = ["n", *(f"c{at}" for at in range(len(TYPES)))]
    machine.contract["output"]["file"]["format"] = "parquet"
    await machine.success()
    parts = [machine.run_folder / part["file"] for part in machine.manifest["parts"]]
    table = pyarrow.concat_tables([pyarrow.parquet.ParquetFile(part).read() for part in parts])
    rows = {
        row["n"]: ([row[f"c{at}"] for at in range(len(TYPES))], row["error"] is not None)
        for row in table.to_pylist()
    }
    check(server, rows)


async def test_each_type_is_copied_to_a_table(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    machine.contract["passThroughColumns"] = ["n", *(f"c{at}" for at in range(len(TYPES)))]
    machine.contract["output"] = {"sql": {"credentialsRef": {"name": "d"}, "table": "copies"}}
    ended = await machine.success()
    columns = ", ".join(f"c{at}" for at in range(len(TYPES)))
    rows = server.execute(f"select n, error is not null, {columns} from copies")  # noqa: S608  own columns
    check(server, {row: (cells, is_error) for row, is_error, *cells in rows})
    read = read_results(run_of(machine, ended), credentials=login(server))
    found = {
        row["n"]: ([row[f"c{at}"] for at in range(len(TYPES))], row["error"] is not None)
        for row in read
    }
    # numbers within JSON are those of Python's JSON readers
    check(server, found, but=("json", "jsonb"))


async def test_each_type_feeds_a_model(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    """Numbers as numbers, all others as the text that the server shows."""
    fed = [at for at, kind in enumerate(TYPES) if not kind.endswith("[]") and kind not in NOT_FED]
    seen = dict[int, dict[str, Any]]()

    async def keep(request: web.Request) -> web.StreamResponse | None:
        inputs = {one["name"]: one["data"] for one in json.loads(await request.read())["inputs"]}
        for at, row in enumerate(inputs["n"]):
            seen[int(row)] = {name: data[at] for name, data in inputs.items()}
        output = {
            "name": "o",
            "shape": [len(inputs["n"])],
            "datatype": "INT64",
            "data": [1] * len(inputs["n"]),
        }
        return web.json_response({"outputs": [output]})

    model.before = keep
    texts, numbers = read_by_psycopg(server, as_text=True), read_by_psycopg(server)
    kinds = {
        at: "INT64" if TYPES[at].startswith("int") and TYPES[at][3:].isdigit() else "BYTES"
        for at in fed
    }
    kinds |= {at: "FP64" for at in fed if TYPES[at].startswith(("numeric", "float", "dnum"))}
    machine.contract["kserve"].pop("modelInputName")
    inputs = [{"name": "n", "columns": ["n"], "datatype": "INT64"}]
    inputs += [
        {"name": f"c{at}", "columns": [f"c{at}"], "datatype": kind} for at, kind in kinds.items()
    ]
    model.metadata["inputs"] = [
        {"name": one["name"], "datatype": one["datatype"], "shape": [-1]} for one in inputs
    ]
    machine.contract["tensors"] = {"inputs": inputs}
    machine.contract["input"]["sql"]["query"] = "select * from every where n < 100"
    await machine.success(f"{ROWS} of {ROWS} records predicted")
    assert len(seen) == ROWS
    for row, cells in seen.items():
        for at, kind in kinds.items():
            cell, value = cells[f"c{at}"], texts[row][at] if kind == "BYTES" else numbers[row][at]
            is_right = (
                _narrow(cell) == _narrow(value)
                if TYPES[at] == "float4"
                else cell == (float(value) if kind == "FP64" else value)
            )
            assert is_right, (row, TYPES[at], cell, value)


async def test_each_type_is_part_of_a_prompt(
    machine: Machine, server: Postgres, llm: OpenAiServer
) -> None:
    """Texts as they are, all others in the forms of JSON."""
    prompted = [at for at, kind in enumerate(TYPES) if not kind.startswith("bytea")]
    prompts = dict[int, str]()

    async def keep(sent: web.Request) -> None:
        body = await sent.json()
        prompts[body["seed"]] = body["messages"][-1]["content"]

    llm.before = keep
    machine.contract["kserve"] = {
        "modelUrl": llm.url,
        "modelName": "tiny",
        "protocolVersion": "openai",
    }
    machine.contract["request"] = {
        "prompt": "\x1e".join(f"{{{{ c{at} }}}}" for at in prompted),
        "body": {"seed": "{{ n }}"},
    }
    del machine.contract["tensors"]
    ended = await machine.pod()
    failed = sum(map(len, LACKING.values()))
    assert ended.message.startswith(
        f"{ROWS} of {ROWS + failed} records predicted; {failed} failed"
    ), ended.message
    expected = read_by_psycopg(server)
    assert prompts.keys() == set(range(ROWS))
    for row, prompt in prompts.items():
        for at, part in zip(prompted, prompt.split("\x1e"), strict=True):
            kind, value = TYPES[at], expected[row][at]
            cell = (
                part
                if isinstance(value, (str, Decimal)) and kind not in ("json", "jsonb")
                else _parsed(part)
            )
            is_right = (
                _narrow(cell) == _narrow(value)
                if kind.startswith("float4")
                else is_equal(cell, value)
            )
            assert is_right, (row, kind, part, value)


def _parsed(part: str) -> Any:  # Any: JSON
    try:
        return json.loads(part)
    except ValueError:
        return part
