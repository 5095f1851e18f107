"""Servers that tests and benchmarks start on ports that were free a moment ago."""

import os
import sys
from pathlib import Path

import pytest

from benchmarks.processes import START_ATTEMPTS, ExitedAtStart, Launch, listens, serve

pytestmark = pytest.mark.thorough

LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
EXIT = "raise SystemExit('address already in use')"


def test_a_server_whose_port_was_taken_is_started_on_another_one(tmp_path: Path) -> None:
    ports: list[int] = []

    def at(port: int) -> Launch:
        ports.append(port)
        program = LISTEN if len(ports) == START_ATTEMPTS else EXIT
        return Launch([sys.executable, "-c", program, str(port)], listens(port))

    server, port = serve("server", at, logs=tmp_path, environment=os.environ, seconds=60)
    server.stop()

    assert port == ports[-1]
    assert len(ports) == START_ATTEMPTS


def test_a_server_that_never_starts_is_reported_with_its_log(tmp_path: Path) -> None:
    def at(port: int) -> Launch:
        return Launch([sys.executable, "-c", EXIT], listens(port))

    with pytest.raises(ExitedAtStart, match="address already in use"):
        serve("server", at, logs=tmp_path, environment=os.environ, seconds=60)
