"""Questions whose answer is whether a part is up; asked until it is yes. None of them raises."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

QUESTION_SECONDS = 3


def _asks(url: str, context: ssl.SSLContext | None) -> bool:
    # No proxy: every address asked here is this machine's own.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=QUESTION_SECONDS) as answer:
            return 200 <= int(answer.status) < 300
    except (urllib.error.URLError, OSError, ValueError):
        return False


def plain_answers(url: str) -> Callable[[], bool]:
    return lambda: _asks(url, None)


def answers(url: str, *, keys: Path, verify: bool = True) -> Callable[[], bool]:
    """Asks as the cluster's administrator; `verify=False`: the part serves with a certificate of its own making."""

    def question() -> bool:
        context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        context.load_cert_chain(str(keys / "admin.crt"), str(keys / "admin.key"))
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return _asks(url, context)

    return question


def accepts(path: Path) -> Callable[[], bool]:
    """Whether somebody listens on a Unix socket; a file left by a program that was killed does not count."""

    def question() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                return False
        return True

    return question
