"""Connections to a PostgreSQL database. All methods block, and repeat what failed because a
connection was lost.

Rows are Arrow columns in both directions, through ADBC. Its libpq is given the addresses that were
judged under the policy of all connections of the runner: it resolves no name itself.

A pooler such as pgbouncer in transaction mode gives each transaction another session, with what
others have left there. So nothing outlives a transaction, each sets what it depends on, and no
statement is executed outside of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
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
from inferrun.stores.sql import SqlLogin
from inferrun_runner.network.connections import (
    CONNECT_SECONDS,
    AddressRefused,
    Connections,
    open_connections,
)
from inferrun_runner.network.network_failures import describe_socket_failure
from inferrun_runner.network.retries import with_blocking_retries
from inferrun_runner.stores.sql.credentials import read_credentials
from inferrun_runner.stores.sql.server_errors import Report, ServerError

T = TypeVar("T")

_ROWS_BYTES: Final = 1 << 20
"""Memory of the rows that are received at once."""

_ISOLATION: Final = "set transaction isolation level read committed"
"""Who has waited for a lock must see what its holder has committed; users and databases may have
another default."""

_TEXTS: Final = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
"""Settings with which the text of each value is that value again; `ISO` keeps the order in which
day and month are read."""

_SESSION: Final = "select " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in _TEXTS.items()
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
    """Return the database that the Secret names, which is mounted for the same side, or for that of
    `mounted`. Its transactions have the settings inferrun.p1 and so on with the `values`.

    Raises `error` with the field, the Secret and the key.
    """
    with naming_secret_field(f"{side}.sql.credentialsRef", error):
        credentials = read_credentials(
            MountedSecret(context.endpoints_dir / (mounted or side), secret)
        )
    connections = await open_connections(context.limits)
    return Database(credentials, connections, context.limits, side=side, error=error, values=values)


class Database:
    """The database of one side of a run."""

    def __init__(
        self,
        credentials: SqlLogin,
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
        self._uses_copy = True

    @property
    def location(self) -> str:
        """The location to show."""
        found = self._credentials
        host = f"[{found.host}]" if ":" in found.host else found.host
        return f"postgresql://{host}:{found.port}/{found.database}"

    def transact(self, work: Callable[["Transaction"], T], *, is_kept: bool = True) -> T:
        """Do work in a transaction of a connection of its own, again if the connection is lost: it
        must be idempotent.

        Without `is_kept`, nothing of it is committed. Raises the error of this side.
        """
        return self._repeated(lambda: self._executed(work, is_kept=is_kept))

    def read(self, work: Callable[["Transaction"], T]) -> T:
        """Do work that only reads, with the values of the placeholders. Raises the error of this
        side."""

        def bound(transaction: Transaction) -> T:
            transaction.rows("set transaction read only")
            transaction.bind(
                {f"inferrun.p{number}": value for number, value in enumerate(self._values, 1)}
            )
            return work(transaction)

        return self.transact(bound, is_kept=False)

    def _executed(self, work: Callable[["Transaction"], T], *, is_kept: bool) -> T:
        def execute(connection: adbc.AdbcConnection) -> T:
            transaction = Transaction(connection, uses_copy=self._uses_copy)
            transaction.rows(_ISOLATION)
            transaction.rows(_SESSION)
            found = work(transaction)
            # The driver's own commit has no SQLSTATE, and begins another transaction, which costs a
            # pooler its connection.
            if is_kept:
                transaction.rows("commit")
            else:
                # The driver executes nothing after an error; the connection is closed anyway.
                with suppress(adbc.Error, ServerError):
                    transaction.rows("rollback")
            return found

        with self._connected() as connection:
            try:
                return execute(connection)
            except adbc.OperationalError:
                if not self._uses_copy or not self._is_pgpool():
                    raise
                self._uses_copy = False
        with self._connected() as connection:
            return execute(connection)

    @contextmanager
    def _connected(self) -> Iterator[adbc.AdbcConnection]:
        """Connect. The driver reads the types of the server once, which takes 30 ms of CPU time.

        After a failure it reads them again, from the addresses that the server then has.
        """
        try:
            with closing(self._connect()) as connection:
                yield connection
        except (adbc.Error, ServerError):
            self._driver = None
            raise

    def _connect(self) -> adbc.AdbcConnection:
        try:
            with self._lock:
                if self._driver is None:
                    self._driver = self._open_driver()
                return adbc.AdbcConnection(self._driver)
        except adbc.Error as error:
            addresses = self._connections.addresses(self._credentials.host, self._credentials.port)
            raise _Unconnected(str(error), self._find_refusal(addresses)) from error

    def _find_refusal(self, addresses: Sequence[str]) -> Report | None:
        from inferrun_runner.stores.sql.login import find_refusal  # noqa: PLC0415  another client, for failures only

        return find_refusal(self._credentials, addresses)

    def _open_driver(self) -> adbc.AdbcDatabase:
        """Return a driver that knows the server's types, which it does not find if their names are
        quoted.

        pgbouncer refuses options, so they are given only where they are needed. Raises the error of
        this side.
        """
        driver = _driver(self._login())
        with closing(adbc.AdbcConnection(driver)) as connection:
            ((is_quoting,),) = Transaction(connection).rows("show quote_all_identifiers")
        if is_quoting in ("off", b"off"):
            return driver
        try:
            return _driver(self._login() | {"options": "-c quote_all_identifiers=off"})
        except adbc.Error as error:
            # pgbouncer's text, which it does not translate
            if "startup parameter" not in str(error):
                raise
            text = "the user or the database has quote_all_identifiers = on, and a pooler refuses to set it off; reset it"
            raise self._error(
                f"{self._side}.sql: {self.location}: {text}", is_retryable=False
            ) from error

    def _is_pgpool(self) -> bool:
        """Whether this is pgpool-II: a process of version 4.3 ends with a segmentation fault when
        rows are to be copied.

        It answers this statement itself, but only if it is not prepared before.
        """
        with suppress(adbc.Error, ServerError, _Unconnected), self._connected() as connection:
            return bool(Transaction(connection).count("show pool_version"))
        return False

    def _repeated(self, attempt: Callable[[], T]) -> T:
        def described() -> T:
            try:
                return attempt()
            except (adbc.Error, ServerError, _Unconnected, OSError) as error:
                text, is_passing = self._describe(error)
                failed = self._error(
                    f"{self._side}.sql: {self.location}: {text}", is_retryable=is_passing
                )
                kind = FaultKind.UNAVAILABLE if is_passing else FaultKind.FAILED
                raise Fault(failed, kind=kind) from None  # its text may contain values

        return with_blocking_retries(described, budget=self._limits.retry_seconds)

    def _login(self) -> dict[str, str]:
        """Return the parameters for libpq."""
        found = self._credentials
        # libpq supports the authorities of the image and of the config's CA bundle in one mode
        # only.
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

    def _describe(
        self, error: "adbc.Error | ServerError | _Unconnected | OSError"
    ) -> tuple[str, bool]:
        """Return what happened, and whether it passes with time."""
        if isinstance(error, AddressRefused):
            return str(error), False
        if isinstance(error, OSError):
            found = self._credentials
            return describe_socket_failure(error, host=found.host, port=found.port), True
        if isinstance(error, ServerError):
            return error.report.describe(), error.report.is_passing
        if isinstance(error, adbc.OperationalError):
            return "the connection was lost; check that the server is running and ready", True
        if isinstance(error, _Unconnected):
            return error.describe()
        return f"the driver failed ({type(error).__name__})", False


_USE_COPY: Final = StatementOptions.USE_COPY.value


class _Unconnected(Exception):
    """No connection was established."""

    def __init__(self, text: str, refusal: Report | None) -> None:
        super().__init__(text)
        self._refusal = refusal

    def describe(self) -> tuple[str, bool]:
        """Return what happened, and whether it passes with time."""
        if self._refusal is not None:
            return self._refusal.describe_login(), self._refusal.is_passing
        if "certificate" in str(self) or "SSL" in str(self):
            return "the TLS connection failed; check sslmode and ca.crt of the Secret", False
        return (
            "cannot connect, or the connection was lost; check that the server is running and ready",
            True,
        )


class Transaction:
    """Statements of a transaction. ADBC's DB-API is not used: to import it takes seconds of CPU
    time.

    All methods raise ServerError, and errors of the driver without a SQLSTATE.
    """

    def __init__(self, connection: adbc.AdbcConnection, *, uses_copy: bool = True) -> None:
        """Begin it: by one message, because a pooler may give a statement that was prepared before
        another session."""
        self._connection = connection
        self._uses_copy = uses_copy
        with _reported():
            connection.set_autocommit(False)

    def bind(self, settings: Mapping[str, str]) -> None:
        """Set values that statements read with `current_setting`: COPY, by which rows are read, has
        no parameters."""
        for name, value in settings.items():
            self.rows("select set_config($1, $2, true)", name, value)

    def schema(self, query: str) -> pyarrow.Schema:
        """Return the columns of a query."""
        with self._statement(query) as statement:
            return pyarrow.schema(statement.execute_schema())

    def rows(self, statement: str, *values: str | int) -> list[tuple[object, ...]]:
        """Execute a statement with values for $1 and so on, and return its rows, which are few."""
        with self._executed(statement, *values, options={_USE_COPY: "false"}) as batches:
            return [
                row
                for batch in batches
                for row in zip(*(one.to_pylist() for one in batch.columns), strict=True)
            ]

    def count(self, statement: str, *values: str | int) -> int:
        """Execute a statement, and return the number of rows that it has inserted or changed."""
        with self._statement(statement, *values) as executed:
            return int(executed.execute_update())

    @contextmanager
    def batches(
        self, query: str, *, batch_bytes: int = _ROWS_BYTES
    ) -> Iterator[Iterator[pyarrow.RecordBatch]]:
        """Provide the rows of a query, which are received while they are read."""
        options = {
            StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes),
            _USE_COPY: str(self._uses_copy).lower(),
        }
        with self._executed(query, options=options) as batches:
            yield batches

    def append(self, table: str, rows: pyarrow.RecordBatchReader) -> None:
        """Append rows to a temporary table."""
        with _reported(), closing(adbc.AdbcStatement(self._connection)) as statement:
            options = {
                "target_table": table,
                "mode": "adbc.ingest.mode.append",
                "temporary": "true",
            }
            statement.set_options(
                **{f"adbc.ingest.{name}": value for name, value in options.items()}
            )
            statement.bind_stream(rows)
            statement.execute_update()

    @contextmanager
    def _executed(
        self, text: str, *values: str | int, options: Mapping[str, str]
    ) -> Iterator[Iterator[pyarrow.RecordBatch]]:
        with self._statement(text, *values) as statement:
            statement.set_options(**options)
            stream, _ = statement.execute_query()
            # pyarrow's own reader raises OSError, without the code of the error:
            # https://github.com/apache/arrow-adbc/issues/1523
            with closing(AdbcRecordBatchReader._import_from_c(stream.address)) as batches:
                yield iter(batches)

    @contextmanager
    def _statement(self, text: str, *values: str | int) -> Iterator[adbc.AdbcStatement]:
        with _reported(), closing(adbc.AdbcStatement(self._connection)) as statement:
            statement.set_sql_query(text)
            if values:
                given = {f"${at}": [value] for at, value in enumerate(values, 1)}
                statement.bind(pyarrow.RecordBatch.from_pydict(given))
            yield statement


@contextmanager
def _reported() -> Iterator[None]:
    """Raise what the server reported."""
    try:
        yield
    except adbc.Error as error:
        if error.sqlstate is None:
            raise
        details = {_text(key): _text(value) for key, value in error.details}
        fields = ("message_primary", "context", "column_name", "constraint_name")
        values = [details.get(f"PG_DIAG_{name.upper()}", "") for name in fields]
        raise ServerError(Report(error.sqlstate, *values)) from error


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _driver(login: Mapping[str, str]) -> adbc.AdbcDatabase:
    driver: adbc.AdbcDatabase = adbc_driver_postgresql.connect(
        f"postgresql://?{urlencode(login, quote_via=quote)}"
    )
    return driver
