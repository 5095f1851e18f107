"""Why a server refuses a connection: libpq has only the text, which the server translates, and no
SQLSTATE.

So what libpq could not do is tried once more by another client, at the same addresses, with the
same credentials and under the same requirements of TLS. Imports pg8000.
"""

import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Literal

from pg8000.core import CoreConnection
from pg8000.exceptions import DatabaseError

from inferrun.stores.sql import SqlLogin
from inferrun_runner.network.connections import CONNECT_SECONDS
from inferrun_runner.stores.sql.server_errors import Report

_log = logging.getLogger(__name__)


def find_refusal(credentials: SqlLogin, addresses: Sequence[str]) -> Report | None:
    """Log in, and return what the first server that answers reports; None if it reports nothing.
    Blocks."""
    for address in addresses:
        try:
            with closing(
                socket.create_connection((address, credentials.port), CONNECT_SECONDS)
            ) as connection:
                _log_in(credentials, connection)
        except DatabaseError as error:
            return _report(error.args[0]).of_login() if isinstance(error.args[0], dict) else None
        except Exception as error:  # noqa: BLE001  what another protocol's server makes of this client must not end the runner
            _log.info("a refused login was not explained", extra={"error": type(error).__name__})
            continue
        return None
    return None


def _log_in(credentials: SqlLogin, connection: socket.socket) -> None:
    CoreConnection(
        credentials.user,
        password=credentials.password or None,
        database=credentials.database,
        host=credentials.host,
        sock=connection,
        ssl_context=_tls(credentials),
        application_name="inferrun",
    ).close()


def _tls(credentials: SqlLogin) -> ssl.SSLContext | Literal[False] | None:
    """Return what pg8000 calls these modes of libpq: without TLS, with TLS if the server has it,
    and with TLS only."""
    mode, authority = credentials.ssl_mode, credentials.authority
    if mode in ("disable", "allow"):
        return False
    if mode == "prefer":
        return None
    context = ssl.create_default_context(cafile=str(authority) if authority else None)
    context.check_hostname = mode == "verify-full"
    if mode == "require" and not authority:
        context.verify_mode = ssl.CERT_NONE
    return context


def _report(fields: Mapping[str, Any]) -> Report:  # Any: as pg8000 has them
    return Report(
        str(fields.get("C", "")), message=str(fields.get("M", "")), routine=str(fields.get("R", ""))
    )
