"""What a server reports, and what that means for a run: by the SQLSTATE, because servers translate
their texts. Pure.

Neither values nor texts about them become part of a message: errors whose text is about values are
described by words only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from inferrun.text import one_line

_SHOWN: Final = ("0A", "23", "42", "28", "3D", "3F", "25", "55", "57")
"""Classes of errors whose text is about the statement, the table or the user, not about values."""

_SHOWN_CHARACTERS: Final = 200

_TIMEOUTS: Final = "see the settings of the user and the database, such as {}"
_WORDS: Final = {
    "08": "the connection was lost, or a pooler refused it",
    "0A": "the server does not support the statement",
    "22": "a function or a type does not accept a value",
    "23": "a row violates a constraint",
    "23502": "a column must not be null",
    "25006": "the server or the transaction is read-only, such as a replica, a primary that was demoted, or a user with "
    "default_transaction_read_only",
    "25P03": "the transaction was idle for too long; "
    + _TIMEOUTS.format("idle_in_transaction_session_timeout"),
    "25P04": "the transaction lasted too long; " + _TIMEOUTS.format("transaction_timeout"),
    "28": "the server does not admit the user",
    "3D": "the database does not exist",
    "3F": "the schema does not exist",
    "40": "the server rolled the transaction back because of another one; at a replica see hot_standby_feedback and "
    "max_standby_streaming_delay",
    "42": "the statement does not fit what the database contains",
    "42501": "the user lacks a right, such as USAGE of the schema, SELECT and INSERT on the tables, or TEMPORARY on the database",
    "42P01": "a table does not exist",
    "42703": "a column does not exist",
    "428C9": "the server computes the value of a column itself",
    "42809": "results can be inserted into tables and views only",
    "53": "the server lacks resources",
    "53100": "the disk of the server is full",
    "53300": "the server has no free connection",
    "54": "the statement or a row exceeds a limit of the server",
    "55": "an object is not in the necessary state",
    "55P03": "another transaction held a lock for too long; " + _TIMEOUTS.format("lock_timeout"),
    "57": "an operator of the server intervened",
    "57014": "the statement was canceled; " + _TIMEOUTS.format("statement_timeout"),
    "57P": "the server is starting or shutting down, or ended the connection",
    "58": "the server has a system error",
    "HV": "a foreign server failed",
    "P0": "a function or a trigger raised an error",
    "XX": "the server has an internal error",
}
"""What a class of errors means, or one error of it:
https://www.postgresql.org/docs/current/errcodes-appendix.html."""

_PASSING: Final = (
    "08",
    "25006",
    "25P03",
    "25P04",
    "40",
    "53",
    "55P03",
    "57014",
    "57P",
    "58030",
    "HV00N",
)
"""What passes with time: connections, replicas that are promoted, timeouts, rollbacks, resources,
restarts."""

_AT_LOGIN: Final = {
    "28P01": "the server rejects the credentials",
    "28000": "the server does not admit the user: pg_hba.conf has no entry for this user, database, address and sslmode",
    "3D000": "the database or the user does not exist",
    "42501": "the user must not connect to the database; grant CONNECT",
    "55000": "the database accepts no connections",
}
_OF_POOLERS: Final = {
    "authentication failed": "28P01",
    "no such user": "28P01",
    "no such database": "3D000",
    "does not exist": "3D000",
    "permission denied": "42501",
    "not currently accepting": "55000",
}
"""Parts of the texts with which pgbouncer 1.18 refuses a login; all have the SQLSTATE 08P01. It
does not translate them."""

_ROLE_CHECK: Final = "InitializeSessionUserId"
"""The function of the server that knows roles:
https://github.com/postgres/postgres/blob/REL_18_0/src/backend/utils/init/miscinit.c."""


class ServerError(Exception):
    """The server reported an error. Its text is for nobody: it may contain values."""

    def __init__(self, report: "Report") -> None:
        super().__init__(report.state)
        self.report = report


@dataclass(frozen=True, slots=True)
class Report:
    """The fields of an error message of the server:
    https://www.postgresql.org/docs/current/protocol-error-fields.html."""

    state: str
    message: str = ""
    context: str = ""
    """Empty, unless a function, a trigger or COPY was at work."""

    column: str = ""
    constraint: str = ""
    routine: str = ""

    @property
    def is_of_statement(self) -> bool:
        """Whether the text is of the statement itself: that of a function or a trigger may say
        anything, also values."""
        return not self.context or (self.context.startswith("COPY ") and "\n" not in self.context)

    @property
    def is_passing(self) -> bool:
        """Whether the same statement may succeed later."""
        return self.state.startswith(_PASSING)

    def of_login(self) -> "Report":
        """Return the report of a refused login, with the SQLSTATE of a server if it is a
        pooler's."""
        if self.state != "08P01":
            return self
        found = next(
            (state for text, state in _OF_POOLERS.items() if text in self.message), self.state
        )
        return replace(self, state=found)

    def describe(self) -> str:
        """Say what happened to a statement."""
        is_shown = self.state.startswith(_SHOWN) and self.is_of_statement and self.message
        shown = f" ({one_line(self.message, limit=_SHOWN_CHARACTERS)})" if is_shown else ""
        words = _meaning(_WORDS, self.state)
        return f"the statement failed with {self.state}{shown}{f': {words}' if words else ''}"

    def describe_login(self) -> str:
        """Say why a connection was refused."""
        if self.state == "28000" and self.routine == _ROLE_CHECK:
            return "the user does not exist, or may not log in"
        words = _AT_LOGIN.get(self.state) or _meaning(_WORDS, self.state)
        return f"{words} ({self.state}: {one_line(self.message, limit=_SHOWN_CHARACTERS)})"


def _meaning(words: Mapping[str, str], state: str) -> str:
    return next(
        (words[state[:length]] for length in range(5, 1, -1) if state[:length] in words), ""
    )
