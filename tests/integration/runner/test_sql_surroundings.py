"""Runs from and to PostgreSQL as others have set it up: settings, refused logins, rights, triggers,
locks."""

import asyncio
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inferrun.plugins import ColumnSelection, InputError
from inferrun_runner.stores.sql.input import KeyRanges, open_input
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.test_sql_types import context_of, spec

ROWS = "select n as id, n::float8 as a, 0.5::float8 as b from generate_series(0, 2) n"
RUNS = (
    "create table {0}.inferrun_runs (run text primary key, job text not null, plan text, manifest text, "
    "aborted boolean not null default false)"
)
CHUNKS = (
    "create table {0}.inferrun_chunks (run text, chunk integer, attempt text not null, document text not null, "
    "primary key (run, chunk))"
)
COLUMNS = "run text, index bigint, custom_id bigint, prediction double precision, error json"


@pytest.fixture
def schema(postgres: Postgres) -> str:
    """A schema of this test."""
    name = f"s{uuid.uuid4().hex}"
    postgres.execute(f"create schema {name}")
    return name


@pytest.fixture
def database(postgres: Postgres) -> str:
    """A database of this test."""
    name = f"d{uuid.uuid4().hex}"
    postgres.execute(f"create database {name}")
    return name


@pytest.fixture
def user(postgres: Postgres) -> str:
    """A user of this test, who has all rights."""
    name = f"u{uuid.uuid4().hex}"
    postgres.execute(f"create role {name} login superuser password 'pw'")
    return name


@pytest.fixture
def run(machine: Machine, postgres: Postgres, schema: str) -> Machine:
    """A run from a query to a table."""
    reference = {"credentialsRef": {"name": "database"}}
    machine.contract["input"] = {"sql": {**reference, "query": ROWS, "key": "id"}}
    machine.contract["output"] = {"sql": {**reference, "table": f"{schema}.predictions"}}
    for side in ("input", "output"):
        postgres.mount(machine.folder / "endpoints" / side)
    return machine


def sign_in(machine: Machine, **values: str) -> None:
    """Change the Secret of both sides."""
    for side in ("input", "output"):
        for key, value in values.items():
            (machine.folder / "endpoints" / side / key).write_text(value)


@contextmanager
def in_another_session(server: Postgres, statement: str) -> Iterator[None]:
    """Hold the locks of a statement for two seconds."""
    connection = server.connect()
    connection.autocommit = False
    connection.execute(statement)
    timer = threading.Timer(2, connection.rollback)
    timer.start()
    yield
    timer.join()
    connection.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_pods_that_begin_at_once_wait_for_each_other(
    run: Machine, postgres: Postgres, database: str, level: str
) -> None:
    postgres.execute(f"alter database {database} set default_transaction_isolation = '{level}'")
    run.contract["output"]["sql"]["table"] = "predictions"
    sign_in(run, dbname=database)
    waiting = (
        "select count(*) from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"
    )
    with postgres.connect() as holder, _connected(postgres, database) as other:
        other.execute("select pg_advisory_lock(hashtext('inferrun tables'))")
        pods = [asyncio.create_task(run.pod()) for _ in range(2)]
        await until(lambda: holder.execute(waiting, [database]).fetchall() == [(2,)])
    assert [(await pod).message for pod in pods] == ["3 of 3 records predicted"] * 2


@contextmanager
def _connected(server: Postgres, database: str) -> Iterator[Any]:  # Any: a connection of psycopg
    with server.connect() as connection:
        dsn = f"{connection.info.dsn} dbname={database} password={server.password}"
        with type(connection).connect(dsn, autocommit=True) as other:
            yield other


async def test_the_names_of_types_may_be_quoted(
    run: Machine, postgres: Postgres, user: str
) -> None:
    postgres.execute(f"alter role {user} set quote_all_identifiers = on")
    sign_in(run, username=user, password="pw")
    assert (await run.pod()).message == "3 of 3 records predicted"


KEYS: Mapping[str, tuple[str, str]] = {
    "citext": (
        "extensions.citext",
        "case when n % 2 = 0 then upper(md5(n::text)) else md5(n::text) end",
    ),
    "domain": (
        "extensions.name",
        "case when n % 2 = 0 then upper(md5(n::text)) else md5(n::text) end",
    ),
    "float": ("float8", "sqrt(n)"),
    "timestamptz": ("timestamptz", "'2026-01-01Z'::timestamptz + n * interval '1 hour 1 second'"),
    "interval": ("interval", "n * interval '-1 mon 2 days 3 hours'"),
    "date": ("date", "'2026-01-01'::date + n"),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_composed", [False, True])
async def test_keys_are_compared_by_value_whatever_the_settings(
    tmp_path: Path, postgres: Postgres, database: str, kind: str, *, is_composed: bool
) -> None:
    name, value = KEYS[kind]
    settings = {
        "extra_float_digits": "0",
        "DateStyle": "SQL, DMY",
        "TimeZone": "Asia/Kolkata",
        "IntervalStyle": "sql_standard",
        "bytea_output": "escape",
    }
    for setting, text in settings.items():
        postgres.execute(f"alter database {database} set {setting} = '{text}'")
    key = ["k", "n"] if is_composed else "k"
    with _connected(postgres, database) as connection:
        connection.execute("create schema extensions")
        connection.execute("create extension citext schema extensions")
        connection.execute("create domain extensions.name as extensions.citext")
        connection.execute(f"create table given (k {name}, n int, x float8)")
        connection.execute(f"insert into given select {value}, n, n from generate_series(1, 500) n")  # noqa: S608
    postgres.mount(tmp_path / "endpoints" / "input")
    (tmp_path / "endpoints" / "input" / "dbname").write_text(database)
    assert sorted(await _read_twice(tmp_path, spec("select * from given", key))) == [
        float(n) for n in range(1, 501)
    ]


async def _read_twice(folder: Path, given: dict[str, Any]) -> list[float]:
    """Plan in one Pod, and read in another one."""
    (folder / "spool").mkdir()
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
            assert sum(map(len, read)) == chunk.records
            values += [value for part in read for value in part]
        source.verify()
    return values


async def test_a_foreign_table_may_be_sorted_otherwise_where_it_is(
    tmp_path: Path, postgres: Postgres
) -> None:
    name = f"remote{uuid.uuid4().hex}"
    postgres.execute(
        f"create database {name} template template0 locale_provider icu icu_locale 'de' encoding 'UTF8'"
    )
    with _connected(postgres, name) as connection:
        connection.execute("create table given (k text primary key, x float8)")
        text = "insert into given select (array['Z', 'a', 'Ä', 'b'])[1 + n % 4] || md5(n::text), n from generate_series(1, 500) n"
        connection.execute(text)
        connection.execute("analyze given")
    postgres.execute("create extension if not exists postgres_fdw")
    postgres.execute(
        f"create server {name} foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{postgres.port}', "
        f"dbname '{name}', use_remote_estimate 'true')"
    )
    postgres.execute(
        f"create user mapping for current_user server {name} options (user 'inferrun_tests', password '{postgres.password}')"
    )
    postgres.execute(
        f"create foreign table {name} (k text, x float8) server {name} options (table_name 'given')"
    )
    postgres.mount(tmp_path / "endpoints" / "input")
    values = await _read_twice(tmp_path, spec(f"select * from {name}", "k"))  # noqa: S608  own table
    assert sorted(values) == [float(n) for n in range(1, 501)]


REFUSED = {
    "password": ({"password": "no"}, "the server rejects the credentials (28P01"),
    "nobody": ({"username": "nobody"}, "the server rejects the credentials (28P01"),
    "database": ({"dbname": "missing"}, "the database or the user does not exist (3D000"),
    "login": ({"username": "{user}"}, "the user does not exist, or may not log in"),
    "closed": ({"dbname": "{closed}"}, "the database accepts no connections (55000"),
    "tls": ({"sslmode": "require"}, "the TLS connection failed"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_login_is_not_repeated(
    run: Machine, postgres: Postgres, user: str, database: str, case: str
) -> None:
    postgres.execute(f"alter role {user} nologin")
    postgres.execute("update pg_database set datallowconn = false where datname = %s", database)
    values, text = REFUSED[case]
    sign_in(run, password="pw" if case == "login" else postgres.password)
    sign_in(run, **{key: value.format(user=user, closed=database) for key, value in values.items()})
    began = time.monotonic()
    ended = await run.failure(5, text, INFERRUN_RETRY_SECONDS="60")
    assert ended.result.retryable is False
    assert time.monotonic() - began < 30


TRANSLATED = {
    "28P01": (
        "Passwort-Authentifizierung für Benutzer »owner« fehlgeschlagen",
        "auth_failed",
        "rejects the credentials",
    ),
    "28000": (
        "kein pg_hba.conf-Eintrag für Host",
        "ClientAuthentication",
        "pg_hba.conf has no entry",
    ),
    "3D000": (
        "Datenbank »nodb« existiert nicht",
        "InitPostgres",
        "the database or the user does not exist",
    ),
    "42501": ("keine Berechtigung für Datenbank »d«", "CheckMyDatabase", "grant CONNECT"),
    "55000": (
        "Datenbank »d« akzeptiert gegenwärtig keine Verbindungen",
        "CheckMyDatabase",
        "accepts no connections",
    ),
}


@pytest.mark.parametrize("state", TRANSLATED)
async def test_a_refused_login_is_understood_in_any_language(run: Machine, state: str) -> None:
    message, routine, text = TRANSLATED[state]
    with _refusing({"S": "FATAL", "V": "FATAL", "C": state, "M": message, "R": routine}) as port:
        sign_in(run, port=str(port))
        ended = await run.pod(INFERRUN_RETRY_SECONDS="60")
    assert (ended.code, ended.result.retryable) == (5, False)
    assert text in ended.message


async def test_a_server_of_another_protocol_ends_nothing(run: Machine) -> None:
    with _refusing({}) as port:
        sign_in(run, port=str(port))
        ended = await run.pod(INFERRUN_RETRY_SECONDS="0")
    assert (ended.code, ended.result.retryable) == (5, True)
    assert "cannot connect" in ended.message


@contextmanager
def _refusing(fields: Mapping[str, str]) -> Iterator[int]:
    """A server that asks for a password and refuses it with these fields; without them, it says
    something else."""
    error = b"".join(key.encode() + value.encode() + b"\0" for key, value in fields.items()) + b"\0"

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if struct.unpack("!II", connection.recv(8, socket.MSG_PEEK))[1] == 80877103:
                    connection.recv(8)
                    connection.sendall(b"N")
                connection.recv(4096)
                if not fields:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    continue
                connection.sendall(b"R" + struct.pack("!II", 8, 3))
                connection.recv(4096)
                connection.sendall(b"E" + struct.pack("!I", len(error) + 4) + error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


async def test_the_right_to_create_temporary_tables_is_named_before_the_first_request(
    run: Machine, postgres: Postgres, model: CountingModel, user: str, database: str
) -> None:
    postgres.execute(f"alter role {user} nosuperuser")
    postgres.execute(f"revoke temporary on database {database} from public")
    with _connected(postgres, database) as connection:
        connection.execute(f"grant all on schema public to {user}")
    run.contract["output"]["sql"]["table"] = "predictions"
    sign_in(run, dbname=database, username=user, password="pw")
    await run.final_failure(5, "42501 (permission denied to create temporary tables")
    assert len(model.requests) <= 1, "one record, to find the type of the output"


VALUES = "run text, index bigint, custom_id bigint"
LATE: Mapping[str, tuple[str, str]] = {
    "not null": (f"create table {{0}}.predictions ({COLUMNS}, extra int not null)", "23502"),
    "computed": (
        f"create table {{0}}.predictions ({VALUES}, prediction float8 generated always as (1.0) stored, error json)",
        "428C9",
    ),
    "view": (
        f"create table {{0}}.t ({COLUMNS}); create materialized view {{0}}.predictions as table {{0}}.t",
        "42809",
    ),
    "partition": (f"create table {{0}}.predictions ({COLUMNS}) partition by hash (run)", "23514"),
    "partition of today": (
        (
            f"create table {{0}}.predictions ({COLUMNS}, day date not null default current_date) partition by range (day); "
            "create table {0}.p0 partition of {0}.predictions for values from ('2020-01-01') to ('2021-01-01')"
        ),
        "23514",
    ),
    "foreign key": (
        (
            "create table {0}.known (run text primary key); "
            f"create table {{0}}.predictions ({COLUMNS}, foreign key (run) references {{0}}.known)"
        ),
        "23503",
    ),
    "rights": (f"create table {{0}}.predictions ({COLUMNS})", "42501"),
}


@pytest.mark.parametrize("case", LATE)
async def test_what_no_insertion_can_do_is_found_before_the_first_request(
    run: Machine, postgres: Postgres, model: CountingModel, user: str, case: str
) -> None:
    statements, state = LATE[case]
    schema, _ = run.contract["output"]["sql"]["table"].split(".")
    postgres.execute(f"alter role {user} nosuperuser")
    postgres.execute(
        f"{RUNS}; {CHUNKS}; {statements}; grant usage on schema {{0}} to {{1}}".format(schema, user)
    )
    postgres.execute(f"grant all on all tables in schema {schema} to {user}")
    if case == "rights":
        postgres.execute(f"revoke insert on {schema}.predictions from {user}")
    sign_in(run, username=user, password="pw")
    await run.final_failure(5, f"failed with {state}")
    assert len(model.requests) <= 1, "one record, to find the type of the output"
    assert postgres.execute(f"select count(*) from {schema}.predictions") == [(0,)]  # noqa: S608


@pytest.mark.parametrize(
    "statements",
    [
        f"create table {{0}}.predictions ({COLUMNS}, check (prediction is not null))",
        f"create table {{0}}.predictions ({VALUES} not null, prediction float8 not null, error json)",
        (
            f"create table {{0}}.predictions ({COLUMNS}) partition by list (custom_id); "
            "create table {0}.p0 partition of {0}.predictions for values in (0, 1, 2)"
        ),
    ],
)
async def test_a_table_may_require_what_each_record_has(
    run: Machine, postgres: Postgres, schema: str, statements: str
) -> None:
    postgres.execute(statements.format(schema))
    assert (await run.pod()).message == "3 of 3 records predicted"


SKIP = "create function {0}.skip() returns trigger language plpgsql as $$ begin {1} end $$"
TRIGGER = (
    "create trigger t before insert on {0}.predictions for each row execute function {0}.skip()"
)
REDIRECT = "insert into {0}.child values (new.*); return null;"


@pytest.mark.parametrize(
    ("statements", "stored"),
    [
        (
            (SKIP.format("{0}", "if new.index = 1 then return null; end if; return new;"), TRIGGER),
            2,
        ),
        (("create rule r as on insert to {0}.predictions do instead nothing",), 0),
        (
            (
                "create table {0}.child () inherits ({0}.predictions)",
                SKIP.format("{0}", REDIRECT),
                TRIGGER,
            ),
            3,
        ),
    ],
    ids=["trigger", "rule", "inheritance"],
)
async def test_rows_that_a_trigger_or_a_rule_drops_are_counted(
    run: Machine, postgres: Postgres, schema: str, statements: Sequence[str], stored: int
) -> None:
    postgres.execute(f"create table {schema}.predictions ({COLUMNS}, primary key (run, index))")
    for statement in statements:
        postgres.execute(statement.format(schema))
    ended = await run.pod()
    if stored == 3:
        assert ended.message == "3 of 3 records predicted"
    else:
        assert (ended.code, ended.result.retryable) == (5, False)
        assert f"has stored {stored} of 3 rows" in ended.message


@pytest.mark.parametrize("setting", ["lock_timeout = '200ms'", "statement_timeout = '500ms'"])
async def test_a_lock_that_passes_is_waited_for(
    run: Machine, postgres: Postgres, user: str, schema: str, setting: str
) -> None:
    postgres.execute(f"create table {schema}.predictions ({COLUMNS})")
    postgres.execute(f"alter role {user} set {setting}")
    sign_in(run, username=user, password="pw")
    with in_another_session(postgres, f"lock table {schema}.predictions in share mode"):
        ended = await run.pod(INFERRUN_RETRY_SECONDS="30")
    assert ended.message == "3 of 3 records predicted"


async def test_what_passes_with_time_is_left_to_the_next_attempt(
    run: Machine, postgres: Postgres, user: str
) -> None:
    postgres.execute(f"alter role {user} set default_transaction_read_only = on")
    sign_in(run, username=user, password="pw")
    ended = await run.failure(5, "25006", "read-only", INFERRUN_RETRY_SECONDS="0")
    assert ended.result.retryable


async def test_a_value_that_a_query_cannot_compute_is_not_shown(
    tmp_path: Path, postgres: Postgres
) -> None:
    postgres.mount(tmp_path / "endpoints" / "input")
    (tmp_path / "spool").mkdir()
    context = context_of(tmp_path, columns=ColumnSelection(fed=("x",)))
    with pytest.raises(
        InputError, match="22P02: a function or a type does not accept a value"
    ) as raised:
        async with open_input(spec("select 1 as id, 'secret'::text::float8 as x", "id"), context):
            await asyncio.sleep(0)
    assert "secret" not in str(raised.value)
