"""Connections to a PostgreSQL database. All methods block, and repeat what failed because a connection was lost.

Rows are Arrow columns in both directions, through ADBC. Its libpq is given the addresses that were judged under the policy of all
connections of the runner: it resolves no name itself. Neither values nor the server's text about them become part of a message.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow
from adbc_driver_manager._reader import AdbcRecordBatchReader
from adbc_driver_postgresql import StatementOptions

from inferrun.plugins import Fault, FaultKind, Limits, RunnerError, StoreContext
from inferrun.plugins.storage import MountedSecret, naming_secret_field
from inferrun.text import one_line
from runner.network.connections import CONNECT_SECONDS, AddressRefused, Connections, open_connections
from runner.network.network_failures import describe_socket_failure
from runner.network.retries import with_blocking_retries

T = TypeVar("T")

_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SHOWN: Final = ("0A", "23", "42", "28", "3D", "3F", "25")
"""Classes of errors whose text is about the statement, the table or the user, not about values: syntax and names, constraints,
authorization, …"""


_SHOWN_CHARACTERS: Final = 200

_ROWS_BYTES: Final = 1 << 20
"""Memory of the rows that are received at once."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the mounted Secret contains."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    ssl_mode: str
    authority: Path | None
    """The file with the certificate of the server's authority."""


def read_credentials(secret: MountedSecret) -> Credentials:
    """Read the mounted Secret. Raises ValueError with its name and the key."""

    def value(*keys: str, default: str = "") -> str:
        if found := secret.value(*keys) or default:
            return found
        raise ValueError(f"Secret {secret.name!r} has no key {keys[0]}")

    authority = secret.folder / "ca.crt"
    has_authority = authority.exists()
    mode = value("sslmode", default="verify-full" if has_authority else "prefer")
    if mode not in _SSL_MODES:
        raise ValueError(f"Secret {secret.name!r} has an invalid sslmode; allowed: {', '.join(_SSL_MODES)}")
    port = value("port", default="5432")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"Secret {secret.name!r} has an invalid port")
    host = value("host")
    if host.startswith(("/", "@")) or "," in host or "=" in host:
        raise ValueError(f"Secret {secret.name!r} must have the name or address of one server in key host")
    database = value("dbname", "database")
    if "://" in database or "=" in database:
        raise ValueError(f"Secret {secret.name!r} must have the name of a database in key dbname, not its address")
    return Credentials(
        host=host,
        port=int(port),
        database=database,
        user=value("username", "user"),
        # An empty one is for a server that asks for none.
        password="" if (secret.folder / "password").exists() and not secret.value("password") else value("password"),
        ssl_mode=mode,
        authority=authority if has_authority else None,
    )


async def open_database(
    context: StoreContext,
    *,
    secret: str,
    side: str,
    error: type[RunnerError],
    mounted: str = "",
    values: Sequence[str] = (),
) -> "Database":
    """Return the database that the Secret names, which is mounted for the same side, or for that of `mounted`. Its transactions
    have the settings inferrun.p1 and so on with the `values`.

    Raises `error` with the field, the Secret and the key.
    """
    with naming_secret_field(f"{side}.sql.credentialsRef", error):
        credentials = read_credentials(MountedSecret(context.endpoints_dir / (mounted or side), secret))
    connections = await open_connections(context.limits)
    return Database(credentials, connections, context.limits, side=side, error=error, values=values)


class Database:
    """The database of one side of a run."""

    def __init__(
        self,
        credentials: Credentials,
        connections: Connections,
        limits: Limits,
        *,
        side: str,
        error: type[RunnerError],
        values: Sequence[str] = (),
    ) -> None:
        self._credentials = credentials
        self._connections = connections
        self._limits = limits
        self._side = side
        self._error = error
        self._values = values
        self._lock = Lock()
        self._driver: adbc.AdbcDatabase | None = None

    @property
    def location(self) -> str:
        """The location to show."""
        found = self._credentials
        host = f"[{found.host}]" if ":" in found.host else found.host
        return f"postgresql://{host}:{found.port}/{found.database}"

    def transact(self, work: Callable[["Transaction"], T], *, is_kept: bool = True) -> T:
        """Do work in a transaction of a connection of its own, again if the connection is lost: it must be idempotent.

        Without `is_kept`, nothing of it is committed. Raises the error of this side.
        """

        def attempt() -> T:
            with self._connected() as connection:
                connection.set_autocommit(False)
                found = work(Transaction(connection))
                if is_kept:
                    connection.commit()
                return found

        return self._repeated(attempt)

    def read(self, work: Callable[["Transaction"], T]) -> T:
        """Do work that only reads, with the values of the placeholders. Raises the error of this side."""

        def bound(transaction: Transaction) -> T:
            transaction.rows("set transaction read only")
            values = {f"inferrun.p{number}": value for number, value in enumerate(self._values, 1)}
            transaction.bind({"extra_float_digits": "1", "bytea_output": "hex", **values})  # texts with all digits
            return work(transaction)

        return self.transact(bound, is_kept=False)

    @contextmanager
    def _connected(self) -> Iterator[adbc.AdbcConnection]:
        """Connect. The driver reads the types of the server once, which takes 30 ms of CPU time.

        After a failure it reads them again, from the addresses that the server then has.
        """
        try:
            with self._lock:
                if self._driver is None:
                    address = f"postgresql://?{urlencode(self._login(), quote_via=quote)}"
                    self._driver = adbc_driver_postgresql.connect(address)
                connection = adbc.AdbcConnection(self._driver)
            with closing(connection):
                yield connection
        except adbc.Error:
            self._driver = None
            raise

    def _repeated(self, attempt: Callable[[], T]) -> T:
        def described() -> T:
            try:
                return attempt()
            except (adbc.Error, OSError) as error:
                text, kind = self._describe(error)
                is_retryable = kind is not FaultKind.FAILED
                failed = self._error(f"{self._side}.sql: {self.location}: {text}", is_retryable=is_retryable)
                raise Fault(failed, kind=kind) from None  # its text may contain values

        return with_blocking_retries(described, budget=self._limits.retry_seconds)

    def _login(self) -> dict[str, str]:
        """Return the parameters for libpq."""
        found = self._credentials
        # libpq supports the authorities of the image and of the config's CA bundle in one mode only.
        system = "system" if found.ssl_mode == "verify-full" else ""
        addresses = self._connections.addresses(found.host, found.port)
        return {
            "host": ",".join([found.host] * len(addresses)),
            "hostaddr": ",".join(addresses),
            "port": str(found.port),
            "dbname": found.database,
            "user": found.user,
            "password": found.password,
            "sslmode": found.ssl_mode,
            "sslrootcert": str(found.authority) if found.authority else system,
            "gssencmode": "disable",
            "client_encoding": "utf8",
            "connect_timeout": str(int(CONNECT_SECONDS)),
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "keepalives_count": "3",
            "tcp_user_timeout": str(int(self._limits.handler_timeout * 1000)),
            "application_name": "inferrun",
        }

    def _describe(self, error: adbc.Error | OSError) -> tuple[str, FaultKind]:
        found = self._credentials
        if isinstance(error, AddressRefused):
            return str(error), FaultKind.FAILED
        if isinstance(error, OSError):
            return describe_socket_failure(error, host=found.host, port=found.port), FaultKind.UNAVAILABLE
        state = error.sqlstate
        if state is None:
            return _connecting(str(error))
        if state.startswith(("08", "57P", "53", "40")):  # connection, shutdown, resources, rollback
            return f"the server reported {state}", FaultKind.UNAVAILABLE
        # The text of a function or trigger, which is in the context, may say anything, also values.
        details = {_text(key): _text(value) for key, value in error.details}
        message, context = details.get("PG_DIAG_MESSAGE_PRIMARY", ""), details.get("PG_DIAG_CONTEXT", "")
        is_its_own = not context or (context.startswith("COPY ") and "\n" not in context)
        shows_text = state.startswith(_SHOWN) and is_its_own
        primary = one_line(message, limit=_SHOWN_CHARACTERS) if shows_text else ""
        return f"the statement failed with {state}{f' ({primary})' if primary else ''}", FaultKind.FAILED


class Transaction:
    """Statements of a transaction. ADBC's DB-API is not used: to import it takes seconds of CPU time."""

    def __init__(self, connection: adbc.AdbcConnection) -> None:
        self._connection = connection

    def bind(self, settings: Mapping[str, str]) -> None:
        """Set values that statements read with `current_setting`: COPY, by which rows are read, has no parameters."""
        if settings:
            given = pyarrow.RecordBatch.from_pydict({"name": [*settings], "value": [*settings.values()]})
            with self._executed("select set_config($1, $2, true)", given=given) as batches:
                list(batches)

    def schema(self, query: str) -> pyarrow.Schema:
        """Return the columns of a query."""
        with closing(adbc.AdbcStatement(self._connection)) as statement:
            statement.set_sql_query(query)
            return pyarrow.schema(statement.execute_schema())

    def rows(self, statement: str, *values: str | int) -> list[tuple[object, ...]]:
        """Execute a statement with values for $1 and so on, and return its rows, which are few."""
        given = pyarrow.RecordBatch.from_pydict({f"${at}": [value] for at, value in enumerate(values, 1)})
        with self._executed(statement, given=given if values else None) as batches:
            return [row for batch in batches for row in zip(*(one.to_pylist() for one in batch.columns), strict=True)]

    @contextmanager
    def batches(self, query: str, *, batch_bytes: int = _ROWS_BYTES) -> Iterator[Iterator[pyarrow.RecordBatch]]:
        """Provide the rows of a query, which are received while they are read."""
        with self._executed(query, batch_bytes=batch_bytes) as batches:
            yield batches

    def ingest(self, table: str, rows: pyarrow.RecordBatchReader) -> None:
        """Create a temporary table with rows."""
        with closing(adbc.AdbcStatement(self._connection)) as statement:
            options = {"target_table": table, "mode": "adbc.ingest.mode.create", "temporary": "true"}
            statement.set_options(**{f"adbc.ingest.{name}": value for name, value in options.items()})
            statement.bind_stream(rows)
            statement.execute_update()

    @contextmanager
    def _executed(
        self, text: str, *, given: pyarrow.RecordBatch | None = None, batch_bytes: int = _ROWS_BYTES
    ) -> Iterator[Iterator[pyarrow.RecordBatch]]:
        with closing(adbc.AdbcStatement(self._connection)) as statement:
            statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)})
            statement.set_sql_query(text)
            if given is not None:
                statement.bind(given)
            stream, _ = statement.execute_query()
            # pyarrow's own reader raises OSError, without the code of the error: https://github.com/apache/arrow-adbc/issues/1523
            with closing(AdbcRecordBatchReader._import_from_c(stream.address)) as batches:
                yield iter(batches)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _connecting(text: str) -> tuple[str, FaultKind]:
    """Describe a failure of libpq, which has no code; its text contains the user and addresses."""
    if "authentication failed" in text or "no password supplied" in text:
        return "the server rejects the credentials", FaultKind.FAILED
    if "certificate" in text or "SSL" in text:
        return "the TLS connection failed; check sslmode and ca.crt of the Secret", FaultKind.FAILED
    if "does not exist" in text:
        return "the database or the user does not exist", FaultKind.FAILED
    return (
        "cannot connect, or the connection was lost; check that the server is running and ready",
        FaultKind.UNAVAILABLE,
    )
