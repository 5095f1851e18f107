"""Rows of a query as typed columns, and keys of any type, against a real PostgreSQL."""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from inferrun.contract import Contract
from inferrun.plugins import (
    ArrowRecords,
    Block,
    ColumnSelection,
    InputError,
    InputPlan,
    Limits,
    Source,
    StoreContext,
)
from inferrun_runner.registry import Registry
from inferrun_runner.stores.services import RunnerServices
from inferrun_runner.stores.sql.input import KeyRanges, open_input
from tests.integration.runner.postgres_server import Postgres, postgres_server

ID = uuid.UUID("00000000-0000-4000-8000-00000000000a")
MOMENT = datetime(2026, 11, 23, 12, 30, 0, 123456, tzinfo=UTC)
JSON = pyarrow.json_()

TYPES: Mapping[str, tuple[str, pyarrow.DataType, object]] = {
    "b": ("bool", pyarrow.bool_(), True),
    "i2": ("smallint", pyarrow.int16(), -7),
    "i4": ("int", pyarrow.int32(), 2**31 - 1),
    "i8": ("bigint", pyarrow.int64(), -(2**63)),
    "f4": ("real", pyarrow.float32(), 0.25),
    "f8": ("double precision", pyarrow.float64(), 0.1),
    "n": ("numeric(20,6)", pyarrow.decimal128(20, 6), Decimal("12345678901234.567890")),
    "n50": ("numeric(50,10)", pyarrow.decimal256(50, 10), Decimal("1" * 40 + ".0000000001")),
    "n_any": ("numeric", pyarrow.string(), "1.50"),
    "t": ("text", pyarrow.string(), "a\nb\\N\t\u2028ü"),
    "c": ("char(5)", pyarrow.string(), "ab   "),
    "raw": ("bytea", pyarrow.binary(), b"\x00\xff\n"),
    "d": ("date", pyarrow.date32(), date(2026, 11, 23)),
    "ti": ("time", pyarrow.time64("us"), time(23, 59, 59, 999999)),
    "ts": ("timestamp", pyarrow.timestamp("us"), MOMENT.replace(tzinfo=None)),
    "tz": ("timestamptz", pyarrow.timestamp("us", "UTC"), MOMENT),
    "u": ("uuid", pyarrow.uuid(), ID),
    "j": ("jsonb", JSON, '{"a": [1, null]}'),
    "ints": ("int[]", pyarrow.list_(pyarrow.int32()), [1, None, 3]),
    "texts": ("text[]", pyarrow.list_(pyarrow.string()), ["x", None, ""]),
    "times": ("timestamptz[]", pyarrow.list_(pyarrow.timestamp("us", "UTC")), [MOMENT]),
    "numbers": ("numeric(5,2)[]", pyarrow.list_(pyarrow.string()), ["1.50"]),
    "mood": ("mood", pyarrow.string(), "happy"),
    "address": ("inet", pyarrow.string(), "10.0.0.1"),
    "span": ("interval", pyarrow.string(), "1 day"),
    "object_id": ("oid", pyarrow.string(), "4294967295"),
    "price": ("money", pyarrow.string(), "$5.00"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres_server() as started:
        started.execute("create type mood as enum ('sad', 'happy')")
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
        started.execute(f"create table typed (id int primary key, x float8, {columns})")
        values = [value for _, _, value in TYPES.values()]
        marks = ", ".join(f"%s::{kind}" for kind, _, _ in TYPES.values())
        started.execute(f"insert into typed values (0, 0.5, {marks})", *values)  # noqa: S608  own columns
        started.execute("insert into typed (id, x) values (1, 1.5)")
        yield started


@pytest.fixture
def context(tmp_path: Path, server: Postgres) -> StoreContext:
    for name in ("endpoints/input", "spool"):
        (tmp_path / name).mkdir(parents=True)
    server.mount(tmp_path / "endpoints" / "input")
    return context_of(tmp_path)


def context_of(
    folder: Path, *, chunk_bytes: int = 0, columns: ColumnSelection | None = None
) -> StoreContext:
    limits = Limits(chunk_bytes=chunk_bytes, retry_seconds=0, allowed_addresses="127.0.0.1")
    return StoreContext(
        contract=Contract(job_id="", job_name=""),
        limits=limits,
        services=RunnerServices(limits, folder / "spool"),
        pod_uid="",
        input_dir=folder,
        output_dir=folder,
        endpoints_dir=folder / "endpoints",
        spool_dir=folder / "spool",
        format_named=Registry().record_format,
        columns=columns or ColumnSelection(fed=("x",), copied=tuple(TYPES)),
    )


def spec(query: str, key: str | list[str] = "") -> dict[str, Any]:
    return {"credentialsRef": {"name": "database"}, "query": query, "key": key}


def rows_of(source: Source, plan: InputPlan | None = None) -> list[Block]:
    found = plan or source.plan()
    blocks = [block for chunk in found.chunks for block in source.read(chunk)]
    source.verify()
    return blocks


def copied_of(block: Block) -> list[dict[str, Any]]:
    assert isinstance(block.copied, ArrowRecords)
    rows: list[dict[str, Any]] = block.copied.table.to_pylist()
    return rows


for_each_key = pytest.mark.parametrize("key", ["id", ""])


@for_each_key
async def test_columns_have_the_types_of_the_query(context: StoreContext, key: str) -> None:
    async with open_input(spec("select * from typed order by id", key), context) as source:
        plan = source.plan()
        (block,) = rows_of(source, plan)
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(plan.schema))
    assert {name: schema.field(name).type for name in TYPES} == {
        name: kind for name, (_, kind, _) in TYPES.items()
    }
    present, absent = copied_of(block)
    assert {name: present[name] for name in TYPES} == {
        name: value for name, (_, _, value) in TYPES.items()
    }
    assert {absent[name] for name in TYPES} == {None}
    assert isinstance(block.records, ArrowRecords)
    assert block.records.table.to_pydict() == {"x": [0.5, 1.5]}
    assert block.errors == {}


@for_each_key
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("'infinity'::timestamptz", True),
        ("'-infinity'::date", True),
        ("'NaN'::numeric(8,2)", True),
        ("'{{1,2},{3,4}}'::int[]", True),
        ("'{infinity}'::timestamp[]", True),
        ("'0001-12-31 BC'::date", True),
        ("'10000-01-01'::timestamp", True),
        ("'24:00:00'::time", True),
        ("'{24:00:00}'::time[]", True),
        ("'{0044-03-15 BC}'::date[]", True),
        ("'{{sad},{happy}}'::mood[]", True),
        ("'{{10.0.0.1}}'::inet[]", True),
        ("'0001-01-01'::date", False),
        ("'9999-12-31 23:59:59.999999+00'::timestamptz", False),
        ("'23:59:59.999999'::time", False),
        ("'[0:1]={1,2}'::int[]", False),
        ("'{}'::int[]", False),
        ("'NaN'::numeric", False),
        ("'infinity'::float8", False),
    ],
)
async def test_a_value_that_arrow_does_not_have_is_an_error_of_its_record(
    tmp_path: Path, context: StoreContext, key: str, value: str, *, fault: bool
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",), copied=("v",)))
    literal, kind = value.split("::")
    query = (
        f"select id, x, (case when id = 1 then {literal} end)::{kind} as v from typed order by id"  # noqa: S608  own values
    )
    async with open_input(spec(query, key), context) as source:
        (block,) = rows_of(source)
    assert list(block.errors) == ([1] if fault else [])
    assert (copied_of(block)[1]["v"] is None) == fault
    if fault:
        assert block.errors[1].code == "invalid_input"
        assert "record 1: column 'v' has a value that cannot be read" in block.errors[1].message


@for_each_key
async def test_numeric_columns_feed_the_model_as_numbers_and_are_copied_exactly(
    tmp_path: Path, context: StoreContext, key: str
) -> None:
    query = (
        "select id, x::numeric(8,2) as a, x::numeric as b, 1 as custom_id from typed order by id"
    )
    context = context_of(tmp_path, columns=ColumnSelection(copies_all=True))
    async with open_input(spec(query, "id" if key else ""), context) as source:
        (block,) = rows_of(source)
    assert isinstance(block.records, ArrowRecords)
    fed = block.records.table
    assert (fed.column("a").type, fed.column("a").to_pylist()) == (pyarrow.float64(), [0.5, 1.5])
    assert (fed.column("b").type, fed.column("b").to_pylist()) == (pyarrow.float64(), [0.5, 1.5])
    assert ("id" in fed.schema.names) == (not key)
    assert copied_of(block)[1] | {"custom_id": 1} == {
        "id": 1,
        "a": Decimal("1.50"),
        "b": "1.5",
        "custom_id": 1,
    }


@for_each_key
async def test_a_number_that_no_tensor_has_is_an_error_of_its_record(
    tmp_path: Path, context: StoreContext, key: str
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("n",)))
    query = (
        "select id, (case id when 0 then 1e400 else 0.1 end)::numeric as n from typed order by id"
    )
    async with open_input(spec(query, key), context) as source:
        (block,) = rows_of(source)
    assert list(block.errors) == [0]


async def test_decimal_numbers_feed_the_nearest_floating_point_number(
    tmp_path: Path, context: StoreContext
) -> None:
    """pyarrow's own conversion misses it for a tenth of these."""
    context = context_of(tmp_path, columns=ColumnSelection(fed=("n",), copied=("n",)))
    query = "select (n * 9176543210987654321.0 / 7)::numeric(38,10) as n from generate_series(1, 1000) n"
    async with open_input(spec(query), context) as source:
        blocks = rows_of(source)
    assert sum(len(block.records) for block in blocks) == 1000
    for block in blocks:
        assert isinstance(block.records, ArrowRecords)
        assert block.records.table.column("n").to_pylist() == [
            float(row["n"]) for row in copied_of(block)
        ]


NAMES = (
    *("q", "n", "o", "key0", "number", "inferrun_fault", "inferrun_number", "inferrun_spooled"),
    *(
        "index",
        "run",
        "row",
        "text",
        "select",
        "order",
        "user",
        "current_setting",
        "unnest",
        "count",
        'a "b"',
    ),
)
"""Names of ours, and of SQL: those of columns mean nothing else."""


@pytest.mark.parametrize("name", NAMES)
async def test_a_column_may_have_any_name(
    tmp_path: Path, context: StoreContext, server: Postgres, keyed: str, name: str
) -> None:
    """Each is the key, copied, and in place of the value that changes."""
    column = '"' + name.replace('"', '""') + '"'
    server.execute(
        f"create table {keyed} as select n as {column}, n as x from generate_series(0, 999) n"  # noqa: S608  own table
    )
    context = context_of(
        tmp_path, chunk_bytes=1024, columns=ColumnSelection(fed=("x",), copied=(name,))
    )
    for key in (name, ""):
        query = f"select * from {keyed} order by 1"  # noqa: S608  own table
        async with open_input(spec(query, key), context) as source:
            rows = [row for block in rows_of(source) for row in copied_of(block)]
            assert [row[name] for row in rows] == list(range(1000))
            first = source.plan().fingerprint
        server.execute(f"update {keyed} set x = -1 where x = 7")  # noqa: S608  own table
        async with open_input(spec(query, key), context) as source:
            assert source.plan().fingerprint != first
        server.execute(f"update {keyed} set x = 7 where x = -1")  # noqa: S608  own table


KEYS: Mapping[str, Callable[[int], object]] = {
    "text": lambda at: f"k'\\{chr(0x5A + at % 40)} {at}",
    "varchar(40)": lambda at: f"{at:x}",
    "char(8)": lambda at: f"c{at}",
    "bigint": lambda at: at * 10**12,
    "uuid": lambda at: uuid.UUID(int=at * 2**100),
    "timestamptz": lambda at: datetime.fromtimestamp(at * 1.000001, UTC),
    "date": lambda at: date.fromordinal(730000 + at),
    "numeric": lambda at: Decimal(at) / 7,
    "float8": lambda at: at / 7,
    "bytea": lambda at: at.to_bytes(4),
    "time": lambda at: time(at % 24, at // 24, 1, at),
}
"""Types of keys, and distinct values of them."""


@pytest.fixture
def keyed(server: Postgres) -> Iterator[str]:
    """The name of a table."""
    name = f"keyed_{uuid.uuid4().hex}"
    yield name
    server.execute(f"drop table if exists {name}")


def fill(server: Postgres, table: str, kinds: list[str], rows: list[tuple[object, ...]]) -> None:
    columns = ", ".join(f"k{at} {kind}" for at, kind in enumerate(kinds))
    server.execute(f"create table {table} (x float8, {columns})")
    with server.connect() as connection:
        marks = ", ".join(["%s"] * (len(kinds) + 1))
        connection.cursor().executemany(f"insert into {table} values ({marks})", rows)  # noqa: S608  own table


async def read_in_two_pods(folder: Path, given: dict[str, Any]) -> tuple[InputPlan, list[float]]:
    """Plan in one Pod, and read in another one."""
    context = context_of(folder, chunk_bytes=1024, columns=ColumnSelection(fed=("x",)))
    async with open_input(given, context) as source:
        plan = source.plan()
    async with open_input(given, context) as source:
        assert isinstance(source, KeyRanges)
        assert source.fingerprint == plan.fingerprint
        source.adopt(plan)
        values: list[float] = []
        for chunk in plan.chunks:
            read = [one.records.table.column("x").to_pylist() for one in source.read(chunk)]  # type: ignore[union-attr]
            assert [len(values), sum(map(len, read))] == [chunk.first, chunk.records]
            values += [value for part in read for value in part]
        source.verify()
    return plan, values


@pytest.mark.parametrize("kind", KEYS)
async def test_a_key_may_have_any_type_with_an_order(
    tmp_path: Path, context: StoreContext, server: Postgres, keyed: str, kind: str
) -> None:
    del context
    places = random.Random(7).sample(range(1200), 300)  # noqa: S311  test data
    fill(server, keyed, [kind], [(float(at), KEYS[kind](at)) for at in places])
    plan, values = await read_in_two_pods(tmp_path, spec(f"select * from {keyed}", "k0"))  # noqa: S608  own table
    assert len(plan.chunks) > 2
    assert values == [row[0] for row in server.execute(f"select x from {keyed} order by k0")]  # noqa: S608  own table


@pytest.mark.parametrize(
    "kinds", [("text", "bigint"), ("date", "char(8)", "uuid"), ("bigint", "mood", "text")]
)
async def test_a_key_may_have_several_columns(
    tmp_path: Path, context: StoreContext, server: Postgres, keyed: str, kinds: tuple[str, ...]
) -> None:
    del context
    values: dict[str, Callable[[int], object]] = {
        **KEYS,
        "mood": lambda at: ("sad", "happy")[at % 2],
    }
    generator = random.Random(11)  # noqa: S311  test data
    keys = {tuple(values[kind](generator.randrange(20)) for kind in kinds) for _ in range(300)}
    fill(server, keyed, list(kinds), [(float(at), *key) for at, key in enumerate(keys)])
    names = [f"k{at}" for at in range(len(kinds))]
    plan, found = await read_in_two_pods(tmp_path, spec(f"select * from {keyed}", names))  # noqa: S608  own table
    assert len(plan.chunks) > 2
    query = f"select x from {keyed} order by {', '.join(names)}"  # noqa: S608  own table
    assert found == [row[0] for row in server.execute(query)]


@pytest.mark.parametrize(
    ("key", "ids"),
    [("id", [0, 1]), ("t", ["a", "b"]), (["t", "id"], ['["a", 0]', '["b", 1]'])],
    ids=str,
)
async def test_the_key_is_the_id_of_a_record(
    tmp_path: Path, context: StoreContext, key: str | list[str], ids: list[object]
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",)))
    async with open_input(
        spec("select id, x, chr(97 + id) as t from typed", key), context
    ) as source:
        (block,) = rows_of(source)
    assert list(block.ids) == ids


@pytest.mark.parametrize(
    ("query", "key", "text"),
    [
        ("select 'a' as k, x from typed", "k", "k has 2 rows, but 1 different keys"),
        ("select nullif(id, 1) as k, x from typed", "k", "it must be unique, and never null"),
        (
            "select nullif(id, 1) as k, id, x from typed",
            ["id", "k"],
            "it must be unique, and never null",
        ),
        (
            "select id, x from typed",
            "missing",
            "'missing' must be a column of the query; it has id, x",
        ),
        ("select '{}'::json as k, x from typed", "k", "could not identify"),
        ("select id, x, x from typed", "id", "several columns 'x'"),
        ("select id, 1/(id - 1) as x from typed", "id", "failed with 22012"),
        ("select 1/(500 - n) as x from generate_series(1, 5000) n", "", "failed with 22012"),
    ],
)
async def test_what_is_wrong_with_a_query_is_named(
    tmp_path: Path, context: StoreContext, query: str, key: str | list[str], text: str
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",)))
    with pytest.raises(InputError) as raised:
        async with open_input(spec(query, key), context) as source:
            rows_of(source)
    assert text in str(raised.value)
    assert not raised.value.is_retryable


async def test_a_query_cannot_write(
    tmp_path: Path, context: StoreContext, server: Postgres
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",)))
    server.execute(
        "create or replace function writes() returns float8 language sql as 'delete from typed; select 1.0::float8'"
    )
    with pytest.raises(InputError, match="failed with 25006"):
        async with open_input(spec("select writes() as x"), context):
            pass


async def test_columns_that_change_during_a_run_are_rejected(
    tmp_path: Path, context: StoreContext, server: Postgres
) -> None:
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",)))
    server.execute("create or replace view changing as select id, x from typed")
    given = spec("select * from changing", "id")
    async with open_input(given, context) as source:
        plan = source.plan()
    server.execute("drop view changing")
    server.execute("create view changing as select id::bigint, x from typed")
    async with open_input(given, context) as source:
        assert isinstance(source, KeyRanges)
        assert source.fingerprint == plan.fingerprint
        with pytest.raises(InputError, match="the columns of the query have changed"):
            source.adopt(plan)
    server.execute("drop view changing")
