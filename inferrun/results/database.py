"""Rows of a PostgreSQL database. psycopg is imported when a database is opened.

Rows are copied as the runner wrote them, in read-only transactions. libpq reads its own variables
and files (PGHOST, PGSERVICE, PGPASSFILE, …) if the environment names a server.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from inferrun.results.access import Access, load
from inferrun.results.errors import ResultsUnreachable
from inferrun.stores.sql import SqlStorage, login_of

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[object, ...]]

_LOGINS: Final = ("PGHOST", "PGHOSTADDR", "PGSERVICE")
_CONNECT_SECONDS: Final = 10


class DatabaseRows:
    """A database from which rows are read. Methods block and raise ResultsUnreachable."""

    def __init__(self, storage: SqlStorage, access: Access) -> None:
        """Raises ResultsUnreachable without credentials, and PackageMissing."""
        self._psycopg = load("psycopg")
        fix = "PGHOST, PGDATABASE, PGUSER and PGPASSWORD"
        secret = storage.credentials_ref.name
        self._login = access.login(
            keys=("username", "user"), secret=secret, variables=_LOGINS, fix=fix
        )

    @contextmanager
    def connected(self) -> "Iterator[Connection]":
        """Connect. Whatever is done inside is one read-only transaction."""
        with ExitStack() as opened:
            try:
                connection = opened.enter_context(self._psycopg.connect(**self._parameters(opened)))
                connection.read_only = True
                yield connection
            except self._psycopg.Error as error:
                text = str(error.diag.message_primary or error).strip().partition("\n")[0][:300]
                if error.sqlstate is None:
                    text += "; if it can be reached in the cluster only, forward its port, and pass host and port in credentials="
                raise ResultsUnreachable(f"the database: {text}") from error

    def _parameters(self, opened: ExitStack) -> "dict[str, str | int]":
        common: dict[str, str | int] = {
            "application_name": "inferrun",
            "connect_timeout": _CONNECT_SECONDS,
        }
        if self._login is None:
            return common
        authority = None
        if certificate := self._login.get("ca.crt"):
            authority = (
                Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="inferrun-")))
                / "ca.crt"
            )
            authority.write_text(certificate)
        try:
            login = login_of(
                self._login,
                whose="the login for the database",
                authority=authority,
                needs_password=False,
            )
        except ValueError as error:
            raise ResultsUnreachable(str(error)) from error
        found: dict[str, str | int] = {
            "host": login.host,
            "port": login.port,
            "dbname": login.database,
        }
        found |= {"user": login.user, "sslmode": login.ssl_mode}
        if login.password:
            found["password"] = login.password
        if authority:
            found["sslrootcert"] = str(authority)
        return {**common, **found}
