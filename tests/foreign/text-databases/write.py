"""PostgreSQL, MariaDB and SQLite: a table of the same texts, dumped in the ways that each has, and
loaded again.

The servers are of this program: they have folders of their own, PostgreSQL listens on a socket and
MariaDB, too.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)
TEXTS = json.loads(Path("../texts.json").read_text())
POSTGRESQL = Path("/usr/lib/postgresql/15/bin")
DEADLINE = 60.0
Rows = list[dict[str, str | None]]


def run(*command: object, given: str = "", user: str = "") -> str:
    """Run a program and return what it prints, with its carriage returns."""
    prefix = ["runuser", "-u", user, "--"] if user and os.getuid() == 0 else []
    command = (*prefix, *map(str, command))
    ended = subprocess.run(command, input=given.encode(), capture_output=True, check=False, cwd="/")
    if ended.returncode:
        raise SystemExit(f"{command[:3]}: {ended.stderr.decode()}")
    return ended.stdout.decode()


def values(texts: list[str | None], literal: str) -> str:
    """The rows of a table as SQL; `literal` is how the bytes of a text are written."""
    cells = ("null" if text is None else literal % text.encode().hex() for text in texts)
    return ", ".join(f"({at}, {cell})" for at, cell in enumerate(cells))


@contextmanager
def served(command: list[object], ready: list[object], user: str) -> Iterator[None]:
    """A server, as long as the context is open."""
    prefix = ["runuser", "-u", user, "--"] if user and os.getuid() == 0 else []
    server = subprocess.Popen(
        [*prefix, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + DEADLINE
        while subprocess.run([*map(str, ready)], capture_output=True, check=False).returncode:
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command[0]} does not start")
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        server.wait(DEADLINE)


def postgresql(folder: Path) -> dict[str, Rows]:
    """COPY in its formats."""
    read: dict[str, Rows] = {}
    user = "postgres" if os.getuid() == 0 else ""
    if user:
        shutil.chown(folder, "postgres")
    run(
        POSTGRESQL / "initdb",
        "-D",
        folder / "data",
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--no-sync",
        user=user,
    )
    options = [
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={folder}",
        "-c",
        "fsync=off",
    ]
    psql = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", "postgres"]
    with served(
        [POSTGRESQL / "postgres", "-D", folder / "data", *options], [*psql, "-c", "select 1"], user
    ):
        rows = values(TEXTS, "convert_from('\\x%s', 'UTF8')")
        run(
            *psql,
            given=f"create table t (id int, t text); insert into t values {rows}; create table r (like t)",
        )
        for name, what, form in (
            ("postgresql.txt", "t", ""),
            ("postgresql-pipes.txt", "t", "with (delimiter '|', null 'null')"),
            ("postgresql-one-column.txt", "t (t)", ""),
            ("postgresql.csv", "t", "with (format csv, header)"),
            ("postgresql-null.csv", "t", "with (format csv, header, null '\\N')"),
            ("postgresql-escaped.csv", "t", "with (format csv, header, escape '\\')"),
            ("postgresql-one-column.csv", "t (t)", "with (format csv, header)"),
        ):
            (FILES / name).write_bytes(run(*psql, "-c", f"copy {what} to stdout {form}").encode())
            load = f"\\copy {what.replace('t', 'r', 1)} from '{FILES / name}' {form}"
            run(*psql, given=f"truncate r;\n{load}\n")
            is_one = what != "t"
            found = run(
                *psql,
                "-c",
                f"select row_to_json(q) from (select {'t' if is_one else 'id::text, t'} from r) q",
            )
            read[name] = [json.loads(line) for line in found.split("\n")[:-1]]
    return read


def mariadb(folder: Path) -> dict[str, Rows]:
    """INTO OUTFILE in its formats."""
    read: dict[str, Rows] = {}
    user = pwd.getpwuid(os.getuid()).pw_name
    common = ["--no-defaults", f"--datadir={folder / 'data'}", f"--user={user}"]
    run(
        "mariadb-install-db",
        *common,
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *extra(),
    )
    socket = folder / "socket"
    client = [
        "mariadb",
        "--no-defaults",
        f"--socket={socket}",
        "-uroot",
        "-N",
        "-r",
        "--default-character-set=utf8mb4",
    ]
    serve = [
        "mariadbd",
        *common,
        f"--socket={socket}",
        "--skip-networking",
        "--secure-file-priv=",
        *extra(),
    ]
    with served(serve, [*client, "-e", "select 1"], ""):
        rows = values([*TEXTS, "nul\0a"], "convert(x'%s' using utf8mb4)")
        create = "create database d; use d; create table t (id int, t text) charset utf8mb4; create table r like t;"
        run(*client, given=f"{create} insert into t values {rows};")
        for name, form in (
            ("mariadb.txt", ""),
            ("mariadb-enclosed.csv", "fields terminated by ',' optionally enclosed by '\"'"),
            (
                "mariadb-all-enclosed.csv",
                "fields terminated by ',' enclosed by '\"' lines terminated by '\\r\\n'",
            ),
        ):
            path = folder / name
            run(
                *client,
                given=f"use d; select * from t into outfile '{path}' character set utf8mb4 {form};",
            )
            run(
                *client,
                given=f"use d; delete from r; load data infile '{path}' into table r character set utf8mb4 {form};",
            )
            query = "select json_object('id', convert(id, char), 't', t) from r order by id"
            found = run(*client, "d", "-e", query)
            shutil.copyfile(path, FILES / name)
            read[name] = [json.loads(line) for line in found.split("\n")[:-1]]
    return read


def extra() -> list[str]:
    """Options for programs that are not where they were built for, as in a folder of unpacked
    packages."""
    base = os.environ.get("MARIADB_BASE")
    return [f"--basedir={base}", f"--lc-messages-dir={base}/share/mysql"] if base else []


def sqlite(folder: Path) -> dict[str, Rows]:
    """The modes of its shell; what the texts are is known from the table, because .import reads no
    nulls."""
    path = folder / "db"
    rows = values(TEXTS, "cast(x'%s' as text)")
    run("sqlite3", path, given=f"create table t (id int, t text); insert into t values {rows};")
    for name, query, mode in (
        ("sqlite.csv", "select * from t", "csv"),
        ("sqlite-one-column.csv", "select t from t", "csv"),
    ):
        (FILES / name).write_bytes(
            run("sqlite3", path, given=f".mode {mode}\n.headers on\n{query};\n").encode()
        )
    found = json.loads(
        run("sqlite3", path, given=".mode json\nselect cast(id as text) as id, t from t;\n")
    )
    return {"sqlite.csv": found, "sqlite-one-column.csv": [{"t": row["t"]} for row in found]}


expected: dict[str, Rows] = {}
for database in (postgresql, mariadb, sqlite):
    with tempfile.TemporaryDirectory(prefix="dumps-") as temporary:
        expected |= database(Path(temporary))
(OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
