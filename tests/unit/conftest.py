"""Unit tests open no socket: whoever tries fails. Properties are tested with the same examples each
time, without a deadline."""

import socket
from typing import NoReturn

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


class SocketOpened(Exception):
    """A unit test reached for the network."""


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every connection, and every attempt to serve one, an error."""

    def refuse(_self: socket.socket, address: object, *_rest: object) -> NoReturn:
        raise SocketOpened(f"unit tests open no socket; this one: {address!r}")

    for method in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, method, refuse)
