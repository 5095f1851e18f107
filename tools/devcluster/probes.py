"""Readiness probes: functions without arguments that return whether a component is up. They never
raise."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

PROBE_SECONDS = 3


def http_ok(url: str) -> Callable[[], bool]:
    """A probe that succeeds if a GET returns a 2xx status."""
    return lambda: _get_succeeds(url, None)


def https_ok(url: str, *, certificates: Path, verify: bool = True) -> Callable[[], bool]:
    """Like `http_ok`, as the cluster's administrator; `verify=False` is for components with
    self-signed certificates."""

    def probe() -> bool:
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        context.load_cert_chain(str(certificates / "admin.crt"), str(certificates / "admin.key"))
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return _get_succeeds(url, context)

    return probe


def accepts_connections(path: Path) -> Callable[[], bool]:
    """A probe that connects to a Unix socket; a stale socket file does not count."""

    def probe() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                return False
        return True

    return probe


def accepts_tcp(address: str, port: int) -> Callable[[], bool]:
    """A probe that connects to a TCP port."""

    def probe() -> bool:
        try:
            socket.create_connection((address, port), timeout=PROBE_SECONDS).close()
        except OSError:
            return False
        return True

    return probe


def _get_succeeds(url: str, context: ssl.SSLContext | None) -> bool:
    # No proxy: all probed addresses are on this machine.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=PROBE_SECONDS) as response:
            return 200 <= int(response.status) < 300
    except (urllib.error.URLError, OSError, ValueError):
        return False
