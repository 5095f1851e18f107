"""A real pgbouncer in front of a PostgreSQL, if it is installed. Without it, tests are skipped."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.integration.runner.postgres_server import USER, Postgres

MODES: Final = ("transaction", "session")
_PROGRAM: Final = "pgbouncer"
_READY_SECONDS: Final = 30
_SETTINGS: Final = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
logfile = {folder}/log
pool_mode = {mode}
default_pool_size = 8
max_client_conn = 200
"""
"""The defaults of the program, except for what it must know."""


@contextmanager
def pgbouncer(server: Postgres, mode: str) -> Iterator[Postgres]:
    """Start a pooler on a free port of this machine: Secrets name it, and the tests still reach the
    server itself.

    It refuses to run as root.
    """
    program = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is required")
    folder = Path(tempfile.mkdtemp(prefix="inferrun-pgbouncer-", dir="/tmp"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "users").write_text(f'"{USER}" "{server.password}"\n')
    (folder / "settings").write_text(
        _SETTINGS.format(server=server.port, port=port, folder=folder, mode=mode)
    )
    as_user = {"user": "nobody"} if os.geteuid() == 0 else {}
    if as_user:
        for path in (folder, folder / "users", folder / "settings"):
            shutil.chown(path, "nobody")
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "stdin": subprocess.DEVNULL,
    }
    process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
        [program, str(folder / "settings")], cwd=folder, **quiet, **as_user
    )
    try:
        _wait_until_ready(port)
        yield replace(server, pool=port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                pytest.fail("pgbouncer is not ready")
            time.sleep(0.05)
        else:
            return
