"""Rows of a PostgreSQL database. psycopg is imported when a database is opened.

Rows are copied as the runner wrote them, in read-only transactions. libpq reads its own variables and files (PGHOST, PGSERVICE,
PGPASSFILE, …) if the environment names a server.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from inferrun.resources.storage import SqlStorage
from inferrun.results.access import Access, load
from inferrun.results.errors import ResultsUnreachable

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[object, ...]]

_KEYS: Final = {
    "host": ("host",),
    "port": ("port",),
    "dbname": ("dbname", "database"),
    "user": ("username", "user"),
    "password": ("password",),
    "sslmode": ("sslmode",),
}
"""What libpq is given, and the keys of a Secret for it."""

_LOGINS: Final = ("PGHOST", "PGHOSTADDR", "PGSERVICE")
_CONNECT_SECONDS: Final = 10


class DatabaseRows:
    """A database from which rows are read. Methods block and raise ResultsUnreachable."""

    def __init__(self, storage: SqlStorage, access: Access) -> None:
        """Raises ResultsUnreachable without credentials, and PackageMissing."""
        self._psycopg = load("psycopg", extra="results")
        fix = "PGHOST, PGDATABASE, PGUSER and PGPASSWORD"
        secret = storage.credentials_ref.name
        self._login = access.login(keys=("username", "user"), secret=secret, variables=_LOGINS, fix=fix)

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
        common: dict[str, str | int] = {"application_name": "inferrun", "connect_timeout": _CONNECT_SECONDS}
        if self._login is None:
            return common
        found = _parameters_of(self._login)
        if authority := self._login.get("ca.crt"):
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="inferrun-")))
            (folder / "ca.crt").write_text(authority)
            found = {"sslmode": "verify-full", **found, "sslrootcert": str(folder / "ca.crt")}
        return {**common, **found}


def _parameters_of(login: Mapping[str, str]) -> dict[str, str]:
    found = {
        name: value.strip()
        for name, keys in _KEYS.items()
        if (value := next((login[key] for key in keys if login.get(key)), None)) is not None
    }
    if missing := [_KEYS[name][0] for name in ("host", "dbname", "user") if name not in found]:
        raise ResultsUnreachable(f"the credentials for the database have no key {' and no key '.join(missing)}")
    return found
