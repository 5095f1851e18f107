"""The values exchanged between the runner's pipeline and stores, protocols and formats. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inferrun.runner_report import Output

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Row: TypeAlias = "list[float | None]"
"""The numbers of one record; None is a missing value. Integers stay integers, so that they are sent as they were written."""

CustomId: TypeAlias = "str | int | None"


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records that are sent in one request. All rows have the same width, which is at least 1."""

    first: int
    """Index of the first record within the whole input, from 0."""

    rows: list[Row]

    ids: Sequence[CustomId] = ()
    """One id per row if the input has ids, otherwise empty."""


@dataclass(frozen=True, slots=True)
class RecordError:
    """Takes the place of a prediction if a single record failed."""

    code: str
    """`invalid_input` or `invalid_prediction`."""

    message: str

    value: Json = None
    """What a store writes if it needs a value in this place: the prediction with null for every invalid value."""


Prediction: TypeAlias = "Json | RecordError"
"""A value, or nested lists of values, all of which are valid JSON and none of which is null; or the error of the record."""


@dataclass(frozen=True, slots=True)
class ResultCounts:
    """Numbers of results, separated into predictions and errors."""

    completed: int
    failed: int = 0

    @property
    def total(self) -> int:
        """The number of results."""
        return self.completed + self.failed

    def __add__(self, other: "ResultCounts") -> "ResultCounts":
        return ResultCounts(self.completed + other.completed, self.failed + other.failed)


def count_predictions(predictions: Sequence[Prediction]) -> ResultCounts:
    """Count the predictions and errors of a batch."""
    failed = sum(isinstance(prediction, RecordError) for prediction in predictions)
    return ResultCounts(len(predictions) - failed, failed)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A deterministic range of the input that can be read again. It is committed and resumed as a whole."""

    index: int
    """Number of the chunk, from 0 and without gaps."""

    unit: int
    """The unit of the input (file, table, …) that contains the range, from 0."""

    start: int
    end: int
    """The half-open range in a measure that the input store chooses: bytes for files, rows for tables."""


@dataclass(frozen=True, slots=True)
class InputPlan:
    """How a run divides its input into chunks. All attempts of a run use the same plan."""

    fingerprint: str
    """Identifies the content of the input."""

    chunk_size: int
    """Size of a chunk in the input store's measure."""

    total: int
    """Number of records in the input."""


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """The result of a committed run."""

    total: int
    completed: int
    failed: int
    output: Output


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What earlier attempts of a run have committed; empty for the first attempt."""

    plan: InputPlan | None = None

    committed_chunks: int = 0
    """Chunks 0 to committed_chunks - 1 are committed. Attempts commit in order, so there are no gaps."""

    committed: ResultCounts = ResultCounts(0)
    """The results in the committed chunks."""

    committed_run: CommittedRun | None = None
    """Set if the whole run is committed."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of records; `completed + failed` never exceeds `total`. Completed means that the prediction is committed."""

    total: int
    completed: int = 0
    failed: int = 0
