"""The rows of the table: what is to be done, how often, and against which server. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from campaigns.peers.records import answer_of, is_chat_refused, is_row_refused, prediction_of

Form = Literal["rows", "objects", "columns", "batch", "texts"]
"""`rows` are JSON lines with a list of four numbers, `objects` with a member for each, `columns` a
Parquet file with a column for each; `batch` is a file of chat requests, `texts` a Parquet file of
texts for prompts. Results have the format of the input."""

SMALLEST: Final = 200


@dataclass(frozen=True)
class Work:
    """One row."""

    key: str
    title: str
    form: Form
    records: int
    batch: int = 1
    """Records in a request."""

    in_flight: int = 4
    server: dict[str, str] = field(default_factory=dict)
    """Options of the server."""

    @property
    def is_chat(self) -> bool:
        """Whether its requests are chat completions."""
        return self.form in ("batch", "texts")

    @property
    def expected(self) -> Callable[[int], object]:
        """The result of a record, by its number."""
        return answer_of if self.is_chat else prediction_of

    @property
    def is_refused(self) -> Callable[[int], bool] | None:
        """Which records the server refuses, if it refuses some."""
        if "refuse" not in self.server:
            return None
        return is_chat_refused if self.is_chat else is_row_refused

    def scaled(self, scale: float) -> "Work":
        """This work with fewer records, but not fewer than the smallest row has."""
        return replace(self, records=max(SMALLEST, round(self.records * scale)))


WORKS: Final = (
    Work("A", "A: rows of 4 numbers, JSON lines, V2", "rows", 2_000_000, batch=1000),
    Work(
        "objects", "A with objects: named columns, JSON lines, V2", "objects", 2_000_000, batch=1000
    ),
    Work("B", "B: the same, Parquet to Parquet", "columns", 2_000_000, batch=1000),
    Work("C", "C: a batch file of chat requests", "batch", 50_000, in_flight=16),
    Work(
        "waiting",
        "C, 50 ms a request, 256 in flight",
        "batch",
        50_000,
        in_flight=256,
        server={"delay": "50ms"},
    ),
    Work("D", "D: texts, Parquet to prompt to Parquet", "texts", 50_000, in_flight=16),
    Work("E", "E: a run of 200 rows, JSON lines, V2", "rows", SMALLEST, batch=1000),
)

FAULTY: Final = ("B", "C", "D")
"""The rows that are measured with faults as well."""


def faults_of(work: Work) -> dict[str, Work]:
    """The work with servers that have faults, by the names of the faults."""
    half = str(max(1, work.records // work.batch // 2))
    options = {
        "1 % of the records refused": {"refuse": "true"},
        "1 % of the answers 200 ms later": {"slow": "200ms"},
        "a restart of the server": {"restart-after": half},
    }
    return {name: replace(work, server={**work.server, **given}) for name, given in options.items()}
