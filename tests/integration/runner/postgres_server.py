"""A real PostgreSQL of its own on loopback, if its programs are installed. Without them, tests are
skipped."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

USER, DATABASE = "inferrun_tests", "postgres"
FAST = {"fsync": "off", "shared_buffers": "16MB"}
"""Settings for tests, whose data nobody needs after a crash."""

_READY_SECONDS = 120
_PORTS = 5
"""Ports to try: another program may take one between choosing it and listening on it."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server, and how the tests reach it."""

    port: int
    password: str
    pool: int = 0
    """The port of a pooler, which Secrets name instead of the server's."""

    def connect(self) -> "psycopg.Connection[Any]":  # Any: rows
        """Connect as the owner."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            dbname=DATABASE,
            autocommit=True,
        )

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:  # Any: a row
        """Execute a statement, and return its rows if it has any."""
        with self.connect() as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def mount(self, folder: Path) -> None:
        """Write the keys of the Secret as the kubelet does."""
        folder.mkdir(parents=True, exist_ok=True)
        values = {
            "host": "127.0.0.1",
            "port": str(self.pool or self.port),
            "dbname": DATABASE,
            "username": USER,
        }
        for key, value in (values | {"password": self.password}).items():
            (folder / key).write_text(value)


def find_program(name: str) -> str:
    """The path of one of the server's programs; empty if it is not installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else "")


@contextmanager
def postgres_server(settings: Mapping[str, str] = FAST) -> Iterator[Postgres]:
    """Start a server on a free port of this machine. The server refuses to run as root."""
    initdb, program = find_program("initdb"), find_program("postgres")
    if not initdb or not program:
        pytest.skip("PostgreSQL is required: initdb and postgres")
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="inferrun-postgres-", dir="/tmp"))
    try:
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        command = [
            initdb,
            "-D",
            str(folder / "data"),
            "-U",
            USER,
            "--pwfile",
            str(folder / "password"),
        ]
        options = ["--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"]
        as_user = {"user": user} if os.geteuid() == 0 else {}
        subprocess.run([*command, *options], check=True, capture_output=True, cwd=folder, **as_user)  # type: ignore[call-overload]
        with _started(program, folder, settings, password=password, as_user=as_user) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _started(
    program: str,
    folder: Path,
    settings: Mapping[str, str],
    *,
    password: str,
    as_user: dict[str, str],
) -> Iterator[Postgres]:
    for _ in range(_PORTS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            server = Postgres(probe.getsockname()[1], password)
        process = _start(program, folder, server, settings, as_user=as_user)
        if _is_ready(server, process):
            break
    else:
        pytest.fail("PostgreSQL does not start")
    try:
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # ends connections, too
        process.wait()


def _start(
    program: str,
    folder: Path,
    server: Postgres,
    settings: Mapping[str, str],
    *,
    as_user: dict[str, str],
) -> "subprocess.Popen[bytes]":
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **settings}
    options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    command = [program, "-D", str(folder / "data"), "-p", str(server.port), *options]
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "stdin": subprocess.DEVNULL,
    }
    started: subprocess.Popen[bytes] = subprocess.Popen(command, cwd=folder, **quiet, **as_user)  # type: ignore[call-overload]
    return started


def _is_ready(server: Postgres, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until the server is ready; False if it has ended, because its port was taken."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            server.connect().close()
        except psycopg.OperationalError:
            if process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                process.kill()
                pytest.fail("PostgreSQL is not ready")
            time.sleep(0.1)
        else:
            return True
