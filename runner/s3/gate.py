"""The only way of the S3 client to the network: a proxy on loopback, within this process, that connects to one server.

obstore has an HTTP client of its own, which resolves names itself, follows the redirects of reads, and has no hook for either.
Through this proxy, the address of each connection is judged after name resolution, under the policy of all other connections of
the runner, and it is that address to which the connection is made: there is no second resolution. A redirect to any other server
is refused. The environment's proxies are not used.

What is left: a redirect to another path of the same server is followed, and whoever shares the Pod's network can reach the same
server through the proxy, as it can without it. Network policies cover what this process does not decide.
"""

import selectors
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from runner.connections import Connections
from runner.network_failures import describe_socket_failure

_HEAD_BYTES: Final = 64 << 10
_PIECE: Final = 256 << 10
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Server:
    """The server of a bucket."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Server":
        """The server of an http or https URL."""
        parts = urlsplit(url)
        return cls((parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme])


class Gate:
    """The proxy of one bucket's client."""

    def __init__(self, server: Server, connections: Connections) -> None:
        self.server = server
        self.url = ""
        self.failure = ""
        """Why the latest connection was not made; empty if it was."""

        self._connections = connections

    def connect(self, wanted: Server | None) -> socket.socket | None:
        """Connect to the server, unless another one is asked for; None if there is no connection."""
        if wanted != self.server:
            self.failure = "it redirects to another server, which is not followed; use that server's address"
            return None
        try:
            connected = self._connections.connect(self.server.host, self.server.port)
        except OSError as error:
            self.failure = describe_socket_failure(error, host=self.server.host, port=self.server.port)
            return None
        self.failure = ""
        return connected


@contextmanager
def open_gate(server: Server, connections: Connections) -> Iterator[Gate]:
    """Run the proxy until the context ends."""
    gate = Gate(server, connections)
    listener = _Listener(("127.0.0.1", 0), _Connection)
    listener.gate = gate
    gate.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        listener.shutdown()
        listener.server_close()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    gate: Gate

    def handle_error(self, request: Any, client_address: Any) -> None:  # Any: the base class's
        """A connection that was lost; the client reports it."""


class _Connection(socketserver.BaseRequestHandler):
    """One connection of the client: a tunnel for TLS, or one plain request."""

    server: _Listener
    request: socket.socket

    def handle(self) -> None:
        """Connect, and pass everything on."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head, rest = self._read_head()
        method, target, version = head.partition(b"\r\n")[0].split(b" ", 2)
        is_tunnel = method == b"CONNECT"
        connected = self.server.gate.connect(_server_of(target, is_tunnel=is_tunnel))
        if connected is None:
            self.request.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with connected:
            if is_tunnel:
                self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = b"/" + target.split(b"/", 3)[3] if target.count(b"/") > 2 else b"/"
                line = b"%b %b %b\r\nConnection: close" % (method, path, version)
                connected.sendall(line + head[head.index(b"\r\n") :])
            connected.sendall(rest)
            _pass_on(self.request, connected)

    def _read_head(self) -> tuple[bytes, bytes]:
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self.request.recv(_HEAD_BYTES)
            if not piece or len(received) > _HEAD_BYTES:
                raise ConnectionError("no request")
            received += piece
        head, end, rest = received.partition(b"\r\n\r\n")
        return head + end, rest


def _server_of(target: bytes, *, is_tunnel: bool) -> Server | None:
    """The server that a request is for; None if it is invalid."""
    text = target.decode("latin-1")
    try:
        return Server.of(f"https://{text}" if is_tunnel else text)
    except (ValueError, KeyError):
        return None


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    """Copy in both directions until both sides have ended."""
    others = {client: server, server: client}
    with selectors.DefaultSelector() as selector:
        for one in others:
            selector.register(one, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                source = cast("socket.socket", key.fileobj)
                piece = source.recv(_PIECE)
                if piece:
                    others[source].sendall(piece)
                    continue
                selector.unregister(source)
                if source is server:  # the response is complete, whatever the client still sends
                    return
                others[source].shutdown(socket.SHUT_WR)
