"""The label `sql`: a PostgreSQL database. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.secrets import SecretRef
from inferrun.stores.dataset import ColumnTypes
from inferrun.stores.declaration import INPUT, OUTPUT, End, Flag, Form, SecretValues, Store

_TABLE: Final = Form(
    allowed="must be a name of letters, digits and underscores, such as predictions or results.predictions",
    matches=r"[A-Za-z_][A-Za-z0-9_]{0,62}([.][A-Za-z_][A-Za-z0-9_]{0,62})?",
)
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _columns(key: object) -> object:
    if isinstance(key, str) and len(key) <= 63:
        return (key,) if key else ()
    if (
        not isinstance(key, list | tuple)
        or not 1 <= len(key) <= 8
        or len({*map(str, key)}) < len(key)
    ):
        raise ValueError(
            "must be the name of a column, at most 63 characters, or a list of 1 to 8 different ones"
        )
    return key


VALUES_KEY: Final = "values"
"""In the contract's object for an input: the values of its query, in the order of their settings in
the session."""


# Any: a storage object
def bound_values(stored: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the object of an input without the values that a contract has there, and these; never
    part of a statement."""
    own = {name: value for name, value in stored.items() if name != VALUES_KEY}
    return own, tuple(stored.get(VALUES_KEY) or ())


class SqlStorage(Store):
    """A PostgreSQL database."""

    label = "sql"
    keeps_results = True
    placeholders: ClassVar = {("query",): "query", ("table",): "table"}

    credentials_ref: SecretRef
    """Secret with the keys host, dbname, username and password and, if needed, port, sslmode and
    ca.crt."""

    query: Annotated[
        str, Field(max_length=65536), Form(allowed="must not contain NUL", never=r"\x00"), INPUT
    ] = ""
    """Input: the query whose rows are the records. Its columns feed the model, except the key and
    an optional column custom_id."""

    key: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
        Field(max_length=8),
        BeforeValidator(_columns),
        INPUT,
    ] = ()
    """Input: the column of the query that identifies a row, or a list of columns that do so
    together, by which the rows are read in ranges. Their types have an order, and their values are
    never null. Default: each Pod executes the query once and spools its rows."""

    table: Annotated[str, Field(max_length=127), _TABLE, OUTPUT] = ""
    """Output: the table, which the run creates if it does not exist, as schema.table or table."""

    types: Annotated[ColumnTypes, OUTPUT] = Field(default_factory=dict)
    """Output: types of columns by their names, such as prediction: double. Default: those of the
    input and of the model."""

    flatten: Annotated[Flag, OUTPUT] = False
    """Output: whether each output of the model is a column of its own, instead of a member of the
    column prediction."""

    @property
    def statement(self) -> str:
        """The query without the semicolon after it."""
        return self.query.strip().removesuffix(";").rstrip()

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """No query, or no table."""
        yield from super().problems(end=end, path=path)
        if end == "input" and not self.statement:
            allowed = "it is required for an input: the query whose rows are the records"
            yield invalid(f"{path}.query", self.query or None, allowed)
        if end == "output" and not self.table:
            yield invalid(
                f"{path}.table", None, "it is required for an output: the table of the predictions"
            )


@dataclass(frozen=True, slots=True)
class SqlLogin:
    """What the Secret of a database contains."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    """An empty one is for a server that asks for none."""

    ssl_mode: str
    authority: Path | None = None
    """A file with the certificate of the server's authority."""


LOGIN_KEYS: Final = (
    "host",
    "port",
    "dbname",
    "database",
    "username",
    "user",
    "password",
    "sslmode",
)


def login_of(
    secret: SecretValues, *, whose: str, authority: Path | None, needs_password: bool = True
) -> SqlLogin:
    """Return the login in a Secret. Raises ValueError with `whose` keys they are, and what is
    missing or wrong."""

    def value(*keys: str) -> str:
        if found := next((one for key in keys if (one := secret.get(key, "").strip())), ""):
            return found
        raise ValueError(f"{whose} has no key {keys[0]}")

    mode = secret.get("sslmode", "").strip() or ("verify-full" if authority else "prefer")
    if mode not in _SSL_MODES:
        raise ValueError(f"{whose} has an invalid sslmode; allowed: {', '.join(_SSL_MODES)}")
    port = secret.get("port", "").strip() or "5432"
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{whose} has an invalid port")
    host, database = value("host"), value("dbname", "database")
    if "," in host or "=" in host:
        raise ValueError(f"{whose} must have the name or address of one server in key host")
    if "://" in database or "=" in database:
        raise ValueError(f"{whose} must have the name of a database in key dbname, not its address")
    if needs_password and "password" not in secret:
        raise ValueError(f"{whose} has no key password")
    password = secret.get("password", "").strip()
    return SqlLogin(host, int(port), database, value("username", "user"), password, mode, authority)
