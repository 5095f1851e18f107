"""The values exchanged between the runner's pipeline and stores, protocols and formats. No I/O.

Three things are kept apart: a chunk is committed and resumed as a whole, a batch is sent in one
request, and a block is what a source reads at once. The pipeline cuts batches from blocks, across
the borders of chunks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inferrun.plugins.records import JsonRecords, Records
from inferrun.runner_report import Output, TokenUsage, total_usage

CustomId: TypeAlias = "str | int | None"

NO_USAGE = TokenUsage()


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why a single record has no prediction."""

    code: str
    """For programs: `invalid_input` (the record was not sent), `invalid_prediction`, `rejected`,
    `http_` and a status, …"""

    message: str

    attempts: int = 0
    """Number of times that the record was sent, alone or with others. The pipeline counts."""


def _part_of(errors: Mapping[int, RecordError], start: int, stop: int) -> dict[int, RecordError]:
    return (
        {at - start: error for at, error in errors.items() if start <= at < stop} if errors else {}
    )


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive records of a chunk, as a source reads them."""

    records: Records

    ids: Sequence[CustomId] = ()
    """One id per record if the input has ids, otherwise empty."""

    copied: Records | None = None
    """The columns that are copied to the results: typed columns, or per record the members of a
    JSON object without the braces. None: no column is copied."""

    columns: Sequence[str] = ()
    """The names of the columns whose values the records are, in order, if the file names them and
    the records do not."""

    errors: Mapping[int, RecordError] = field(default_factory=dict)
    """The errors of records that are not valid, by position. They are not sent; in their place is
    any record of the same form."""

    keys: Sequence[bytes | None] = ()
    """What `ModelAbilities.keys_of` says about the records; the pipeline asks."""

    def part(self, start: int, stop: int) -> "Block":
        """Return the records from position `start` up to `stop`."""
        return Block(
            self.records.part(start, stop),
            self.ids[start:stop],
            self.copied.part(start, stop) if self.copied is not None else None,
            self.columns,
            _part_of(self.errors, start, stop),
            self.keys[start:stop],
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records that are sent in one request."""

    first: int
    """Index of the first record within the whole input, from 0."""

    records: Records

    ids: Sequence[CustomId] = ()
    """One id per record if the input has ids, otherwise empty."""

    copied: Records | None = None
    """The columns that are copied to the results, as in a block."""

    errors: Mapping[int, RecordError] = field(default_factory=dict)
    """The errors of records that are not sent, as in a block. A protocol never gets such a
    record."""

    keys: Sequence[bytes | None] = ()
    """One key per record, as in a block, or empty."""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def nbytes(self) -> int:
        """The memory of the records and of what is copied."""
        return self.records.nbytes + (self.copied.nbytes if self.copied is not None else 0)

    def part(self, start: int, stop: int) -> "Batch":
        """Return the records from position `start` up to `stop`."""
        if start == 0 and stop >= len(self):
            return self
        return Batch(
            first=self.first + start,
            records=self.records.part(start, stop),
            ids=self.ids[start:stop],
            copied=self.copied.part(start, stop) if self.copied is not None else None,
            errors=_part_of(self.errors, start, stop),
            keys=self.keys[start:stop],
        )


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


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a batch, one per record, in order."""

    values: Records
    """The predictions. A failed record has a value too, for stores that need one in its place: the
    prediction with null for every invalid value, or what the server returned."""

    errors: Mapping[int, RecordError] = field(default_factory=dict)
    """The errors of the failed records by their position in the batch."""

    usage: TokenUsage = NO_USAGE
    """Tokens that the model server counted for these records."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> ResultCounts:
        """The numbers of predictions and errors."""
        return ResultCounts(len(self) - len(self.errors), len(self.errors))

    def part(self, start: int, stop: int) -> "Results":
        """Return the results from position `start` up to `stop`. The first part has the usage of
        the whole request."""
        if start == 0 and stop >= len(self):
            return self
        errors = _part_of(self.errors, start, stop)
        return Results(self.values.part(start, stop), errors, NO_USAGE if start else self.usage)


def join_results(parts: Sequence[Results]) -> Results:
    """Join the results of consecutive batches."""
    if len(parts) == 1:
        return parts[0]
    errors: dict[int, RecordError] = {}
    start = 0
    for part in parts:
        errors |= {start + at: error for at, error in part.errors.items()}
        start += len(part)
    usage = total_usage(part.usage for part in parts)
    return Results(parts[0].values.join([part.values for part in parts[1:]]), errors, usage)


def failed(error: RecordError) -> Results:
    """Return the results of a batch of one record that failed."""
    return Results(JsonRecords([b"null"]), {0: error})


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of one record, read from a result file."""

    index: int
    """Index of the record within the whole input."""

    custom_id: CustomId = None

    copied: bytes = b""
    """The columns that were copied to it, as members of a JSON object without the braces."""

    prediction: bytes = b""
    """A JSON text; empty for a failed record."""

    error: RecordError | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A deterministic range of the input that can be read again. It is committed and resumed as a
    whole."""

    index: int
    """Number of the chunk, from 0 and without gaps."""

    unit: int
    """The unit of the input (file, table, …) that contains the range, from 0."""

    start: int
    end: int
    """The half-open range in a measure that the format or the store chooses: bytes for lines, rows
    for tables."""

    first: int
    """Index of the chunk's first record within the whole input, from 0."""

    records: int
    """Number of records in the chunk; at least 1."""

    @property
    def stop(self) -> int:
        """Index after the chunk's last record."""
        return self.first + self.records


@dataclass(frozen=True, slots=True)
class Skipped:
    """Files of an input that are not read, or have no records, for one reason."""

    reason: str
    count: int

    names: tuple[str, ...]
    """The first ones."""


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """A file or object of the input, as it was when the run began."""

    name: str
    size: int

    tag: str
    """Differs if the content does."""

    partition: Mapping[str, str | None] = field(default_factory=dict)
    """The values of the columns that its path has, as texts."""


@dataclass(frozen=True, slots=True)
class InputPlan:
    """How a run divides its input into chunks. All attempts of a run use the same plan."""

    fingerprint: str
    """Identifies the content of the input."""

    chunks: tuple[Chunk, ...] = ()
    """All chunks in order; together they contain every record once."""

    skipped: tuple[Skipped, ...] = ()
    """What the input contains and the chunks do not."""

    objects: tuple[PlannedObject, ...] = ()
    """The files that are read, in order, if the input is made of such."""

    schema: bytes = b""
    """The columns of the input, as Arrow's serialized schema; empty if the records have none."""

    result_schema: bytes = b""
    """The columns of the results, as `inferrun.formats.result_schema` serializes them; empty if the
    store does not need them. Whoever begins the run decides, for all attempts."""

    boundaries: tuple[tuple[str, ...], ...] = ()
    """The keys at which the chunks begin, if the input is divided by keys."""

    @property
    def total(self) -> int:
        """The number of records in the input."""
        return self.chunks[-1].stop if self.chunks else 0


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """What the config says about the columns of the results."""

    label: str
    """The field of the contract that says it, such as `output.file`."""

    types: Mapping[str, str] = field(default_factory=dict)
    """The types of columns, as `inferrun.formats.result_schema.parse_type` reads them, by their
    names."""

    is_flat: bool = False
    """Whether each output of the model is a column of its own."""


@dataclass(frozen=True, slots=True)
class ChunkCommit:
    """A committed chunk: what is stored, whichever attempt stored it."""

    counts: ResultCounts

    bytes: int = 0
    """Size of the stored results."""

    sha256: str = ""
    """Digest of the stored results; empty if the store does not compute one."""

    usage: TokenUsage = NO_USAGE

    won: bool = True
    """Whether this attempt committed the chunk. If not, another one did before, and what this
    attempt wrote is discarded."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A file with results of a committed run."""

    name: str
    """Relative to the path in the storage object."""

    bytes: int

    records: int
    """Number of results in it, those of failed records included if the format keeps them there."""


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """The result of a committed run."""

    total: int
    completed: int
    failed: int
    output: Output
    usage: TokenUsage = NO_USAGE

    skipped: tuple[Skipped, ...] = ()
    """What was not read of the input."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What earlier attempts of a run have committed; empty for the first attempt."""

    plan: InputPlan | None = None

    committed: Mapping[int, ChunkCommit] = field(default_factory=dict)
    """The committed chunks by their number, in any order and with gaps."""

    committed_run: CommittedRun | None = None
    """Set if the whole run is committed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A Pod's intention to predict a chunk, so that the other Pods of its run choose other chunks.

    It saves work and decides nothing: whatever was claimed, the first commit of a chunk wins.
    """

    chunk: int
    """Number of the chunk; the number of chunks stands for the commit of the run."""

    generation: int
    """0 for the first claim of a chunk; each claim that takes the chunk over has the next
    number."""

    owner: str
    """Name of the Pod."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a Pod of a run says about itself to the others, repeatedly."""

    name: str
    """Differs between all Pods of a run, also between those of the same shard."""

    shard: int
    """Number of the shard, from 0."""

    launch: int
    """Number of the launch that started the Pod."""

    beat: int = 0
    """Grows while the Pod is alive."""

    has_ended: bool = False
    """Whether the Pod has stopped working, so that what it claimed is free."""

    failed: int = 0
    """Number of failed records in the chunks that the Pod has committed."""

    usage: TokenUsage = NO_USAGE
    """Tokens of the chunks that the Pod has committed."""

    verdict: str = ""
    """Why no Pod can commit this run, if that is so: more records failed than may."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What the Pods of a run have committed and claimed, and what they say about themselves."""

    committed: frozenset[int] = frozenset()
    """Numbers of the committed chunks."""

    claims: Mapping[int, Claim] = field(default_factory=dict)
    """The latest claim of each chunk that is not committed."""

    members: Mapping[str, Member] = field(default_factory=dict)
    """The Pods by their names, including those of earlier launches."""

    is_run_committed: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of records; `completed + failed` never exceeds `total`. Completed means that the
    prediction is committed."""

    total: int
    completed: int = 0
    failed: int = 0
    usage: TokenUsage = NO_USAGE

    batch_records: int = field(default=0, compare=False)
    """Number of records in a request, as it is now; 0 if none is sent."""

    concurrency: int = field(default=0, compare=False)
    """Number of requests that may be sent at a time, as it is now; 0 if none is sent."""

    requests: int = field(default=0, compare=False)
    """Number of requests that this Pod has sent and that have ended."""

    failed_requests: int = field(default=0, compare=False)
    """Number of those that failed."""

    request_seconds: float = field(default=0, compare=False)
    """Time that those requests took together."""

    sent_bytes: int = field(default=0, compare=False)
    """Memory of the records in those requests; records that are sent again count again."""

    received_bytes: int = field(default=0, compare=False)
    """Memory of the predictions in the responses."""

    duplicates: int = field(default=0, compare=False)
    """Number of records of this Pod that were not sent because the same had been answered."""

    note: str = field(default="", compare=False)
    """Why requests are not sent as usual, for people; empty if they are."""
