"""Runs from and to PostgreSQL: failures of the server, of credentials and of queries, and what a
second run finds."""

import signal
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine, until
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.servers import CountingModel, holding_after
from tests.integration.runner.test_values_in_places import resolve_storage


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server with irises."""
    with postgres_server() as started:
        started.execute("create table irises (id int primary key, name text, a float8, b float8)")
        started.execute(
            "create table constrained (run text, index bigint, custom_id text, prediction json, error json, extra int not null)"
        )
        started.execute(
            "insert into irises select n, 'iris ' || n, n, n / 2.0 from generate_series(0, 999) n"
        )
        yield started


@pytest.fixture
def machine(tmp_path: Path, model: CountingModel, server: Postgres) -> Machine:
    """A run from a query to a table."""
    uid = str(uuid.uuid4())
    reference = {"credentialsRef": {"name": "database"}}
    contract = {
        "jobId": uid,
        "runId": uid,
        "jobName": f"inf-{uid[:8]}",
        "kserve": {"modelName": "sum", "modelUrl": model.address, "modelInputName": "input-0"},
        "input": {"sql": {**reference, "query": "select id, a, b from irises", "key": "id"}},
        "output": {"sql": {**reference, "table": "predictions"}},
    }
    found = Machine(tmp_path / "run", contract=contract)
    for side in ("input", "output"):
        server.mount(found.folder / "endpoints" / side)
    return found


def failing_after(requests: int) -> Callable[[web.Request], Awaitable[web.Response | None]]:
    """A model server that loses its credentials."""
    seen: list[None] = []

    async def before(_: web.Request) -> web.Response | None:
        seen.append(None)
        return web.Response(status=401) if len(seen) > requests else None

    return before


SMALL = {"INFERRUN_CHUNK_BYTES": "2048", "INFERRUN_BATCH_ROWS": "50"}


async def reject_null(request: web.Request) -> web.Response | None:
    """A model server that accepts no missing number."""
    return web.Response(status=400) if b"null" in await request.read() else None


def stored(server: Postgres, machine: Machine) -> list[tuple[Any, ...]]:
    """The rows of the run."""
    return server.execute(
        "select index, custom_id, prediction, error from predictions where run = %s order by index",
        machine.contract["runId"],
    )


for_each_key = pytest.mark.parametrize("key", ["id", ""])


@for_each_key
async def test_each_row_is_predicted_and_stored_once(
    machine: Machine, server: Postgres, key: str
) -> None:
    query = (
        "select id as custom_id, a, b from irises order by id"
        if not key
        else "select id, a, b from irises"
    )
    machine.contract["input"]["sql"] |= {"query": query, "key": key}
    ended = await machine.success("1000 of 1000 records predicted", INFERRUN_CHUNK_BYTES="2048")
    assert stored(server, machine) == [(n, n, n * 1.5, None) for n in range(1000)]
    assert ended.result.delivery == "ExactlyOnce"
    again = await machine.pod()
    assert again.result == ended.result
    assert list((machine.folder / "tmp").iterdir()) == []


INJECTIONS = (
    "iris 7' or '1'='1",
    "'; drop table irises; --",
    "') or true --",
    "\\'; select pg_sleep(60) --",
    "$$; delete from irises; $$",
    "current_setting('inferrun.p1')",
    "%s %(name)s {} {0}",
    "/* */ union select 1, 2, 3",
    "\U0001f600\n\r\t",
    "",
    "y" * 65_536,
)


def resolved(machine: Machine, query: str, *, key: str, **parameters: str) -> dict[str, Any]:
    """The input of a run of a config with this query and these parameters, as its launch resolves
    it."""
    given = {
        "sql": {
            "credentialsRef": {"name": "database"},
            "query": query,
            **({"key": key} if key else {}),
        }
    }
    return resolve_storage(given, machine.contract["output"], parameters)[0]


@for_each_key
async def test_values_of_placeholders_are_bound_in_every_statement_of_a_run(
    machine: Machine, server: Postgres, key: str
) -> None:
    query = (
        "select id, id as custom_id, a, b from irises where name = $(params.name) or id between $(params.low)::int and "
        "extract(day from $(interval.start)::timestamptz at time zone 'UTC') and $(params.low) <> '' order by id"
    )
    machine.contract["input"] = resolved(machine, query, key=key, name="iris 7", low="19")
    await machine.success("4 of 4 records predicted", **SMALL)
    assert [row[1] for row in stored(server, machine)] == [7, 19, 20, 21]


@pytest.mark.parametrize("value", INJECTIONS)
async def test_a_value_is_never_part_of_a_statement(
    machine: Machine, server: Postgres, value: str
) -> None:
    server.execute("delete from irises where id >= 1000")
    server.execute("insert into irises values (1000, %s, 1, 2)", value)
    query = "select id, a, b from irises where name = $(params.name)"
    machine.contract["input"] = resolved(machine, query, key="id", name=value)
    ended = await machine.pod(**SMALL)
    server.execute("delete from irises where id >= 1000")
    assert (ended.code, ended.message) == (0, "1 of 1 records predicted")
    assert [row[1] for row in stored(server, machine)] == [1000]
    assert server.execute("select count(*) from irises") == [(1000,)]


async def test_a_killed_pod_neither_loses_nor_duplicates_rows(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    for kill in range(1, 4):
        model.before = holding_after(model, requests=len(model.requests) + 5)
        pod = await machine.start(environment={**SMALL, "INFERRUN_CONCURRENCY": "2"})
        await until(lambda: model.in_flight > 0 and len(stored(server, machine)) >= 50 * kill)  # noqa: B023  awaited at once
        pod.signal(signal.SIGKILL)
        assert (await pod.end()).code == -signal.SIGKILL
    assert len(stored(server, machine)) < 1000
    committed = {row[2] for row in stored(server, machine)}
    model.accept()
    ended = await machine.process(**SMALL)
    assert (ended.code, ended.message) == (0, "1000 of 1000 records predicted"), ended.stderr
    assert [(row[0], row[2]) for row in stored(server, machine)] == [
        (n, n * 1.5) for n in range(1000)
    ]
    assert committed.isdisjoint(1.5 * row for row in model.rows)


async def test_a_failed_run_is_completed_from_its_committed_chunks(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    model.before = failing_after(10)
    await machine.failure(4, **SMALL, INFERRUN_CONCURRENCY="1")
    kept = {row[2] / 1.5 for row in stored(server, machine)}
    model.accept()
    machine.retry(None)
    await machine.success(**SMALL)
    assert kept
    assert kept.isdisjoint(model.rows)
    assert [row[0] for row in stored(server, machine)] == list(range(1000))


async def test_rows_that_were_deleted_since_are_not_taken_for_complete(
    machine: Machine, server: Postgres
) -> None:
    first = await machine.pod(**SMALL)
    server.execute(
        "delete from predictions where run = %s and index = 7", machine.contract["runId"]
    )
    machine.retry(first)
    await machine.failure(5, "its results were changed or deleted since", **SMALL)


async def test_a_failed_record_has_an_error_in_place_of_a_prediction(
    machine: Machine, server: Postgres, model: CountingModel
) -> None:
    model.before = reject_null
    machine.contract["input"]["sql"]["query"] = (
        "select id, a, nullif(b, 1.5) as b from irises where id < 10"
    )
    await machine.success()
    rows = stored(server, machine)
    assert len(rows) == 10
    assert rows[3][2] is None
    assert rows[3][3]["code"] == "rejected"


@for_each_key
async def test_copied_text_is_stored_as_it_is(machine: Machine, server: Postgres, key: str) -> None:
    texts = [
        "two\nlines",
        "\r\n",
        "a\rb",
        "\\n",
        "back\\slash\\",
        '"quoted, "',
        "a\tb",
        "",
        "ü \u2028",
    ]
    server.execute("create table if not exists texts (id int primary key, name text, a float8)")
    server.execute("truncate texts")
    for at, text in enumerate(texts):
        server.execute("insert into texts values (%s, %s, 1)", at, text)
    machine.contract["passThroughColumns"] = ["name"]
    machine.contract["input"]["sql"] |= {
        "query": "select id, a, name, name as custom_id from texts order by id"
        if key
        else "select a, name, name as custom_id from texts order by id",
        "key": key,
    }
    machine.contract["output"]["sql"]["table"] = "copied"
    await machine.success("9 of 9 records predicted")
    rows = server.execute(
        "select custom_id, name from copied where run = %s order by index",
        machine.contract["runId"],
    )
    assert rows == [(text, text) for text in texts]


COPIED = {
    "b": ("a > 1", "boolean"),
    "small": ("id::smallint", "smallint"),
    "big": ("id::bigint * 10000000000", "bigint"),
    "f": ("(a / 7)::real", "real"),
    "d": ("a / 7", "double precision"),
    "n": ("a::numeric(12,3)", "numeric(12,3)"),
    "any_n": ("a::numeric / 7", "text"),
    "t": ("name || E'\\n\\\\N'", "text"),
    "raw": ("'\\x00ff'::bytea", "bytea"),
    "day": ("'2026-11-23'::date + id", "date"),
    "at": ("time '01:02:03.000004'", "time without time zone"),
    "ts": ("timestamp '2026-11-23 01:02:03.000004'", "timestamp without time zone"),
    "tz": ("timestamptz '2026-11-23 01:02:03.000004+05:30'", "timestamp with time zone"),
    "u": ("'00000000-0000-4000-8000-00000000000a'::uuid", "uuid"),
    "j": ("'{\"a\": [1, null]}'::jsonb", "json"),
    "ints": ("array[id, null]", "integer[]"),
    "texts": ("array['x', null, E'\"\\n']", "text[]"),
    "tzs": ("array[timestamptz '2026-11-23 01:02+02']", "timestamp with time zone[]"),
    "uuids": ("array['00000000-0000-4000-8000-00000000000a'::uuid]", "json"),
}
"""Expressions of the query, and the types of the columns of results."""


@for_each_key
async def test_the_table_has_typed_columns_with_the_values_of_the_query(
    machine: Machine, server: Postgres, key: str
) -> None:
    table = f"typed_{uuid.uuid4().hex}"
    selected = ", ".join(f"{value} as {name}" for name, (value, _) in COPIED.items())
    nullable = ", ".join(f"case when id <> 2 then {name} end as {name}" for name in COPIED)
    inner = f"select id, a as x, {selected} from irises where id < 500"  # noqa: S608  own values
    query = f"select {'' if key else 'id as custom_id, '}{'id, ' if key else ''}x, {nullable.replace('case when id <> 2 then n end', '(case when id <> 2 then n end)::numeric(12,3)')} from ({inner}) q order by id"  # noqa: S608, E501
    machine.contract["passThroughColumns"] = [*COPIED]
    machine.contract["input"]["sql"] |= {"query": query, "key": key}
    machine.contract["output"]["sql"]["table"] = table
    await machine.success("500 of 500 records predicted", **SMALL)
    found = server.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass and attnum > 0",
        table,
    )
    assert dict(found) == {
        "run": "text",
        "index": "bigint",
        "custom_id": "integer",
        **{name: kind for name, (_, kind) in COPIED.items()},
        "prediction": "real",
        "error": "json",
    }
    differing = " or ".join(
        f"p.{name}::text is distinct from {'to_json(q.uuids)' if name == 'uuids' else f'q.{name}'}::text"
        for name in COPIED
    )
    assert (
        server.execute(
            f"select p.index, p.custom_id, p.prediction from {table} p join ({query.replace('id as custom_id, ', 'id, ')}) q "  # noqa: S608
            f"on p.custom_id = q.id where p.index <> q.id or p.prediction is distinct from q.x or {differing}"
        )
        == []
    )


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("prediction text", "column 'prediction' of {} has type text, expected real"),
        ("prediction real, note int", "column 'note' of {} has type integer, expected text"),
        (
            "custom_id uuid, prediction real",
            "column 'custom_id' of {} has type uuid, expected integer",
        ),
        ("prediction float8, error int", "column 'error' of {} has type integer, expected json"),
    ],
)
async def test_a_column_of_another_type_is_named_before_the_first_request(
    machine: Machine, server: Postgres, model: CountingModel, columns: str, text: str
) -> None:
    table = f"wrong_{uuid.uuid4().hex}"
    server.execute(
        f"create table {table} (run text, index bigint, {columns}, primary key (run, index))"
    )
    model.metadata["outputs"] = [{"name": "predict", "datatype": "FP32", "shape": [-1]}]
    machine.contract["passThroughColumns"] = ["note"]
    machine.contract["input"]["sql"]["query"] = "select id, a, name as note from irises"
    machine.contract["output"]["sql"]["table"] = table
    await machine.final_failure(
        5, text.format(f"postgresql://127.0.0.1:{server.port}/postgres/{table}")
    )
    assert model.requests == []


async def test_the_types_of_the_table_can_be_declared(machine: Machine, server: Postgres) -> None:
    machine.contract["input"]["sql"]["query"] = "select id, a, b from irises where id < 4"
    machine.contract["output"]["sql"] |= {"table": "declared", "types": {"prediction": "int32"}}
    ended = await machine.pod()
    assert ended.message == "2 of 4 records predicted; 2 failed, with their errors in the output"
    rows = server.execute("select prediction, error->>'code' from declared order by index")
    assert rows == [
        (0, None),
        (None, "invalid_prediction"),
        (3, None),
        (None, "invalid_prediction"),
    ]
    assert server.execute("select pg_typeof(prediction)::text from declared limit 1") == [
        ("integer",)
    ]


async def test_a_value_that_the_database_lacks_is_an_error_of_its_record(
    machine: Machine, server: Postgres
) -> None:
    machine.contract["input"] = {
        "file": {"claimName": "in", "path": "rows.arrow", "format": "arrow"}
    }
    machine.contract["passThroughColumns"] = ["t", "l", "d", "m", "c", "j", "json"]
    days, micros = pyarrow.date32(), pyarrow.timestamp("us")
    table = pyarrow.table(
        {
            "a": pyarrow.array(range(8), pyarrow.int64()),
            "t": ["x\0", *"bcdefgh"],
            "l": [["x"], ["y", "\0"], None, [], *[["z"]] * 4],
            "d": pyarrow.array([0, 0, 2_932_897, -719_163, *[2_932_896] * 4], pyarrow.int32()).cast(
                days
            ),
            "m": pyarrow.array(
                [0] * 4 + [2**63 - 1, *[-62_135_596_800_000_000] * 3], pyarrow.int64()
            ).cast(micros),
            "c": pyarrow.array([86_399_999_999] * 8, pyarrow.int64()).cast(pyarrow.time64("us")),
            "j": pyarrow.array(
                [*["[1]"] * 6, '"\\u0000"', '"\\\\u0000"'], pyarrow.json_(pyarrow.string())
            ),
            "json": pyarrow.array(['"\\u0000"'] * 8, pyarrow.json_(pyarrow.string())),
        }
    )
    with pyarrow.ipc.new_file(machine.input / "rows.arrow", table.schema) as out:
        out.write_table(table)
    server.execute(
        "create table lacking (run text, index bigint, j jsonb, primary key (run, index))"
    )
    machine.contract["tensors"] = {"inputs": [{"columns": ["a"]}]}
    machine.contract["output"]["sql"]["table"] = "lacking"
    ended = await machine.pod()
    assert ended.message == "2 of 8 records predicted; 6 failed, with their errors in the output"
    failed = server.execute(
        "select array_position(array[t, l::text, d::text, m::text, c::text, j::text], null), error->>'message' from lacking "
        "where error is not null order by index"
    )
    # null in place of the value; that of record 2 is null
    assert [at for at, _ in failed] == [1, 2, 2, 3, 4, 6]
    assert all("what the database or its clients do not have" in text for _, text in failed)
    row = server.execute(
        "select t, l, d, m, c, j, json from lacking where error is null order by index"
    )[-1]
    moments = (date(9999, 12, 31), datetime(1, 1, 1), time(23, 59, 59, 999_999))  # noqa: DTZ001  of no zone
    assert row == ("h", ["z"], *moments, "\\u0000", "\0")


async def test_bytes_and_times_have_one_form_in_each_column_of_json(
    machine: Machine, server: Postgres
) -> None:
    """Within structs, which become JSON, and in a table that already has a column of JSON for
    them."""
    machine.contract["input"] = {
        "file": {"claimName": "in", "path": "rows.parquet", "format": "parquet"}
    }
    machine.contract["passThroughColumns"] = ["b", "s", "n"]
    given = pyarrow.table(
        {"a": [1], "b": [b"\x89\xff"], "s": [{"b": b"\x89\xff"}], "n": [float("nan")]}
    )
    pyarrow.parquet.write_table(given, machine.input / "rows.parquet")
    server.execute(
        "create table forms (run text, index bigint, b jsonb, n json, primary key (run, index))"
    )
    machine.contract["tensors"] = {"inputs": [{"columns": ["a"]}]}
    machine.contract["output"]["sql"]["table"] = "forms"
    await machine.success()
    assert server.execute("select b, s, n from forms") == [
        ({"b64": "if8="}, {"b": {"b64": "if8="}}, "NaN")
    ]


async def test_a_row_whose_only_value_is_null_is_a_record(
    machine: Machine, model: CountingModel
) -> None:
    model.before = reject_null
    query = "select nullif(a, 1) as a from irises where id < 3 order by id"
    machine.contract["input"]["sql"] |= {"query": query, "key": ""}
    ended = await machine.pod(INFERRUN_BATCH_ROWS="1")
    assert ended.message == "2 of 3 records predicted; 1 failed, with their errors in the output"


async def test_each_row_of_one_column_of_texts_is_a_record(
    machine: Machine, model: CountingModel
) -> None:
    model.before = reject_null
    query = "select t from (values (1, '2.5'), (2, '  '), (3, null), (4, '')) v(n, t) order by n"
    machine.contract["input"]["sql"] |= {"query": query, "key": ""}
    machine.contract["tensors"] = {"inputs": [{"columns": ["t"]}]}
    ended = await machine.pod(INFERRUN_BATCH_ROWS="1")
    assert ended.message == "1 of 4 records predicted; 3 failed, with their errors in the output"


@pytest.mark.parametrize(
    ("side", "change", "text"),
    [
        ("input", {"query": "select nothing from irises"}, "does not exist"),
        (
            "input",
            {"query": "select id, a from irises", "key": "b"},
            "input.sql.key: 'b' must be a column",
        ),
        ("input", {"query": "select 1 as id, a from irises"}, "1000 rows, but 1 different keys"),
        ("input", {"query": "delete from irises returning id, a", "key": ""}, "failed with"),
        ("input", {"query": "select id, name from irises"}, "column 'name' has type string"),
        (
            "input",
            {"query": "select id from irises"},
            "input.sql.query: it must have a column for the model",
        ),
        (
            "input",
            {"query": "select from irises", "key": ""},
            "input.sql.query: it must have a column for the model",
        ),
        ("output", {"table": "missing.predictions"}, "does not exist"),
        (
            "output",
            {"table": "constrained"},
            'null value in column "extra" of relation "constrained"',
        ),
    ],
)
async def test_what_is_wrong_is_named(
    machine: Machine, server: Postgres, side: str, change: dict[str, str], text: str
) -> None:
    machine.contract[side]["sql"] |= change
    ended = await machine.pod(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == (3 if side == "input" else 5)
    assert text in ended.message
    assert server.execute("select count(*) from irises") == [(1000,)]


async def test_wrong_credentials_are_not_retried_and_not_shown(machine: Machine) -> None:
    machine.endpoint("input", {"password": "wr0ng"})
    ended = await machine.final_failure(3, "the server rejects the credentials")
    assert "wr0ng" not in ended.message


async def test_a_refused_address_is_not_asked(machine: Machine) -> None:
    await machine.failure(5, "which runs must not reach", INFERRUN_ALLOWED_ADDRESSES="192.0.2.1")


async def test_a_user_without_the_right_to_create_tables_can_use_existing_ones(
    machine: Machine, server: Postgres
) -> None:
    await machine.success()
    writer = f"writer_{uuid.uuid4().hex[:8]}"
    server.execute(f"create role {writer} login password 'writer'")
    server.execute(f"grant select, insert on predictions, inferrun_chunks to {writer}")
    server.execute(f"grant select, insert, update on inferrun_runs to {writer}")
    machine.endpoint("output", {"username": writer, "password": "writer"})
    machine.contract["runId"] = str(uuid.uuid4())
    await machine.success()
    assert len(stored(server, machine)) == 1000


def relations(server: Postgres) -> list[tuple[Any, ...]]:
    """All tables and views with their numbers of rows, and their columns."""
    names = server.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1"
    )
    columns = server.execute(
        "select attrelid::regclass::text, attname from pg_attribute where attnum > 0 order by 1, 2"
    )
    return [(name, server.execute(f'select count(*) from "{name}"')) for (name,) in names] + columns  # noqa: S608  own tables


@pytest.mark.parametrize("copied", [[], ["name"]], ids=["numbers", "copied"])
async def test_a_dry_run_leaves_neither_tables_nor_rows(
    machine: Machine, server: Postgres, copied: list[str]
) -> None:
    machine.contract |= {"dryRun": True, "passThroughColumns": copied}
    machine.contract["input"]["sql"] |= {
        "query": "select id, a, name from irises" if copied else "select id, a from irises"
    }
    machine.contract["output"]["sql"] |= {"table": f"dry_{len(copied)}"}
    before = relations(server)
    ended = await machine.success()
    assert "output.sql postgresql://127.0.0.1:" in ended.message
    assert "can be written" in ended.message
    assert relations(server) == before


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("missing.predictions", 'schema "missing" does not exist'),
        ("irises", 'column "run" of relation "irises" does not exist'),
        ("constrained", 'null value in column "extra"'),
    ],
)
async def test_a_dry_run_finds_a_table_that_cannot_be_written(
    machine: Machine, table: str, text: str
) -> None:
    machine.contract["dryRun"] = True
    machine.contract["output"]["sql"] |= {"table": table}
    await machine.failure(5, text)


async def test_after_a_kill_the_answers_in_the_table_are_not_asked_for_again(
    machine: Machine, model: CountingModel, server: Postgres
) -> None:
    machine.contract["input"]["sql"]["query"] = "select id, id % 500 as a, 0.5 as b from irises"
    machine.contract["tensors"] = {"inputs": [{"columns": ["a", "b"]}]}
    environment = {**SMALL, "INFERRUN_CONCURRENCY": "1", "INFERRUN_DUPLICATES": "SendOnce"}
    model.before = holding_after(model, requests=6)
    pod = await machine.start(environment=environment)
    await until(lambda: model.in_flight == 1 and len(stored(server, machine)) >= 100)
    pod.signal(signal.SIGKILL)
    await pod.end()
    known = {int(row[0]) % 500 for row in stored(server, machine)}
    model.accept()
    await until(lambda: model.in_flight == 0)
    model.rows.clear()
    ended = await machine.process(**environment)
    assert (ended.code, ended.message) == (0, "1000 of 1000 records predicted"), ended.stderr
    assert set(model.rows.values()) == {1}
    assert set(model.rows) == set(range(500)) - known
