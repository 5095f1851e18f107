"""The seams between the runner's pipeline and what can be added to it: formats, input stores,
output stores, protocols.

Each seam is a protocol with what every implementation has, and a record of abilities with what only
some have. The members of a record are plain values, or what is called if the implementation has the
ability and None if it does not. A run that needs an ability which is missing is rejected, or does
without it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeAlias, TypeVar

from inferrun.contract import Contract, Duplicates, Model, RetriedRun
from inferrun.plugins.columns import ALL_COLUMNS, ColumnSelection
from inferrun.plugins.http import HttpClient
from inferrun.plugins.limits import Limits
from inferrun.plugins.records import Records
from inferrun.plugins.values import (
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    Claim,
    CommittedRun,
    Counts,
    InputPlan,
    Member,
    ResultCounts,
    ResultOptions,
    Results,
    StoredPart,
    StoredResult,
    Survey,
)
from inferrun.runner_report import Delivery

if TYPE_CHECKING:
    import ssl

    import pyarrow

T = TypeVar("T")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class InputFile(Protocol):
    """A file that a store provides to a format. It can be opened any number of times, from several
    threads."""

    @property
    def name(self) -> str:
        """The name to show in messages."""

    @property
    def size(self) -> int:
        """The expected size in bytes."""

    def open(self) -> BinaryIO:
        """Open the file for reading at any position. Raises OSError or InputError."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a file in the format's own measure, and the number of records in it."""

    start: int
    end: int
    records: int


class ResultWriter(Protocol):
    """Writes the results of one chunk to a file. All methods block."""

    def write(self, batch: Batch, results: Results) -> None:
        """Append the results of a batch."""

    def close(self) -> ResultCounts:
        """Complete the file, without closing it, and return the numbers of results in it."""


@dataclass(frozen=True, slots=True)
class ReadableResults:
    """How the result files of a format are read again. All functions block, and raise ValueError
    for another file, and OSError."""

    read: Callable[[BinaryIO, BinaryIO | None], Iterator[StoredResult]]
    """Yields the results in the files of a chunk, in order; without the second one, which has the
    errors, failed records may be missing."""

    read_batches: "Callable[[BinaryIO], Iterator[pyarrow.RecordBatch]] | None" = None
    """Yields the rows of a file that is a table, of which columns are read."""

    read_table: "Callable[[bytes], pyarrow.Table] | None" = None
    """Returns all rows of such a file, given its content."""


class TypedFormat(Protocol):
    """A format whose files say which columns they have, and of which types."""

    columns: ColumnSelection
    """What is used of them."""

    def schema(self, file: InputFile) -> "pyarrow.Schema":
        """Return all columns of a file, without reading its records. Raises InputError."""

    def with_schema(self, schema: "pyarrow.Schema") -> "RecordFormat":
        """Return the format that reads files as if all had these columns. A value that does not fit
        is an error of its record."""


JoinFiles: TypeAlias = "Callable[[Sequence[InputFile], BinaryIO, pyarrow.Schema | None], None]"
"""Writes the results in files of consecutive chunks, in order, to one file, and completes it
without closing it. Each is opened one at a time, and again if necessary. The schema is that of
`RecordFormat.writer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatAbilities:
    """What a format can do besides reading records and writing results."""

    with_columns: "Callable[[ColumnSelection], RecordFormat] | None" = None
    """Returns the format that reads these columns; it raises InputError for a file that does not
    have them. The records have named columns, and writers store `Batch.copied`."""

    typed: TypedFormat | None = None
    """How its files say which columns they have."""

    has_typed_results: bool = False
    """Whether result files have typed columns, which are the same in all files of a run. Writers
    then need a schema, a result that does not fit is an error of its record, and error files are of
    the format, with the same columns except the predictions."""

    with_compression: "Callable[[str], RecordFormat] | None" = None
    """Returns the format whose result files are compressed inside. Raises ValueError, which says
    what is allowed."""

    readable: ReadableResults | None = None
    """How result files are read again."""

    join_files: "JoinFiles | None" = None
    """How result files are joined. Without it, a run has one file per chunk."""


class RecordFormat(Protocol):
    """How records are stored in files. Each format chooses the measure of its ranges: bytes, row
    groups, …

    All methods block; the pipeline calls them on a thread. OSError may be raised as it is.
    """

    suffixes: tuple[str, ...]
    """The file name extensions of its input, with the dot; empty: every file."""

    results_suffix: str
    """The extension of result files, and of error files if results are typed. Other error files are
    JSON lines."""

    @property
    def abilities(self) -> FormatAbilities:
        """What the format can do besides."""

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of about `chunk_bytes`, each with at least one record, and
        count their records."""

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the records of a chunk, whose end may be beyond that of the file.

        A malformed record has an error in its block, or raises InputError if the records after it
        cannot be read; both name the file and the place.
        """

    def writer(
        self, out: BinaryIO, errors: BinaryIO, *, schema: "pyarrow.Schema | None" = None
    ) -> ResultWriter:
        """Return a writer of results to `out`. `schema`: the columns of typed results.

        The errors of failed records are written to `errors`, too, or only to it: one JSON object
        per line, or a table.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAbilities:
    """What an opened input can do besides. Both functions block."""

    adopt: Callable[[InputPlan], None] | None = None
    """Makes the source read the objects and columns of the run's plan, not what it finds; called in
    every attempt before `read`. Raises InputError."""

    first_chunk: Callable[[], Chunk | None] | None = None
    """Returns a chunk that begins with the first record, None if the input has no records, without
    counting all of them."""


class Source(Protocol):
    """An opened input. Every attempt of a run reads the same chunks from it. All methods block."""

    @property
    def fingerprint(self) -> str:
        """Equal for equal inputs; a different fingerprint means that the input has changed."""

    @property
    def abilities(self) -> SourceAbilities:
        """What the source can do besides."""

    def plan(self) -> InputPlan:
        """Divide the input into chunks and count the records. Called only if no earlier attempt
        made a plan."""

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the records of a chunk, which may be part of another attempt's plan; may be called
        again.

        Raises InputError, naming the place, if a record is malformed or cannot be read.
        """

    def verify(self) -> None:
        """Raise InputError if the input has changed since it was opened."""


class ChunkWriter(Protocol):
    """Writes the results of one chunk and commits them."""

    async def write(self, batch: Batch, results: Results) -> None:
        """Add the results of the next records of the chunk."""

    async def commit(self) -> ChunkCommit:
        """Commit the chunk; if it is already committed, discard what was written and return the
        committed one."""


class EarlierResults(Protocol):
    """The results of a run that another run completes."""

    plan: InputPlan
    """The plan of that run, which the other one adopts if the input is the same."""

    kept: int
    """The number of its predictions."""

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk as JSON texts, by the index of their records; empty if
        it is not committed. Blocks.

        Raises OutputError if they have changed since they were committed.
        """

    def results(self) -> Iterator[StoredResult]:
        """Yield all committed results with their ids; of failed records at least the ids. Blocks.
        Raises OutputError as above."""


class AnswerStore(Protocol):
    """An opened output that also keeps answers whose chunk is not committed yet, so that they are
    not lost with their Pod. Called after `begin`; all functions raise OutputError."""

    async def save_answers(self, content: bytes) -> str:
        """Store answers under a new name, and return it."""

    async def read_answers(self) -> Mapping[str, bytes]:
        """Return what all attempts of the run have stored, by name."""

    async def delete_answers(self, names: Sequence[str]) -> None:
        """Delete answers whose chunks are committed."""


class SharedStore(Protocol):
    """An opened output whose chunks several Pods divide among themselves (`shards`).

    Called after `begin`. Claims and members only save work, so they need not be durable. `finish`
    is called after `read_commits`.
    """

    async def claim(self, claim: Claim) -> bool:
        """Record a claim, and return whether it was the first with its chunk and generation."""

    async def report(self, member: Member) -> None:
        """Replace what the Pod said about itself before."""

    async def survey(self) -> Survey:
        """Return what all Pods of the run have done so far."""

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Return all committed chunks, whichever Pod committed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAbilities:
    """What an opened output can do besides storing a run. All functions raise OutputError."""

    commits_chunks: bool = True
    """Whether a chunk's `commit` makes it durable. If not, everything is stored by `finish`, no
    progress is reported before, and chunks are written in order, one at a time."""

    commits_at_a_time: int = 1
    """How many chunks are committed at a time. If several, the next one is written meanwhile, and
    they may complete in any order."""

    stores_copied: bool = False
    """Whether `Batch.copied` is stored."""

    typed: ResultOptions | None = None
    """What is configured of the typed columns of the results. The plan that `begin` gets then has a
    `result_schema`."""

    find_commit: Callable[[], Awaitable[CommittedRun | None]] | None = None
    """Returns the run's commit, None if the run is not committed. Changes nothing. `open` is not
    called before: it is used to settle a run whose Pod disappeared."""

    abort: Callable[[], Awaitable[CommittedRun | None]] | None = None
    """Returns the run's commit; without a commit, ensures that no attempt commits the run later,
    and returns None. Used as above."""

    answers: AnswerStore | None = None
    """How answers are kept whose chunk is not committed yet."""

    shared: SharedStore | None = None
    """How several Pods divide the chunks of a run among themselves."""

    committed_parts: Callable[[], Awaitable[Sequence[StoredPart]]] | None = None
    """Returns the files with the results of the committed run, in order. Raises OutputError if it
    is not committed."""

    probe: Callable[[], Awaitable[str]] | None = None
    """Verifies that the output can be written, leaves nothing behind, and returns the location.
    Used for a dry run, without `open`."""

    earlier_results: Callable[[RetriedRun], Awaitable[EarlierResults | None]] | None = None
    """Returns the results of an ended run (`retryOf`), None if it has none. Raises OutputError if
    they are incomplete."""


class OutputStore(Protocol):
    """An opened output. Calls arrive in this order: `open`, `begin`, per chunk a `writer`,
    `finish`.

    Every method raises OutputError if the store cannot execute it. Uncommitted data is discarded
    when the store is closed.
    """

    delivery: Delivery
    """What the store guarantees for each record: ExactlyOnce or AtLeastOnce."""

    @property
    def abilities(self) -> StoreAbilities:
        """What the store can do besides."""

    async def open(self) -> Checkpoint:
        """Return what has been committed of this run.

        Called again if the attempt fails, to find out whether another attempt has committed the run
        in the meantime.
        """

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt already did, and return the stored plan."""

    def writer(self, chunk: Chunk) -> ChunkWriter:
        """Return the only writer of a chunk in this attempt."""

    async def finish(self, counts: Counts) -> CommittedRun:
        """Commit the run; if another attempt already did, return that attempt's result and change
        nothing.

        If the call is cancelled after the commit, it returns the result; if it raises
        CancelledError, nothing is committed later; and as long as it cannot know, it waits.
        Cancellation happens when the process is stopped and the call has not returned within a few
        seconds. A second later the process ends, and leaves the question to `abilities.find_commit`
        and `abort`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAbilities:
    """What a protocol can do besides predicting."""

    groups_of: Callable[[Records], Sequence[Sequence[int]]] | None = None
    """Returns the positions of the records that may be in one request, for each request. `predict`
    raises MixedBatch, before it sends anything, for records that may not."""

    keys_of: "Callable[[Records, Duplicates], Sequence[bytes | None]] | None" = None
    """Returns digests of what is sent for records: those with the same one are the same request,
    and get the same answer. None for a record whose answer may differ each time, unless the config
    says that this does not matter. Called on another thread."""

    fed_columns: tuple[str, ...] | None = None
    """The columns of the input that are sent, each once, according to the contract. Empty: all of
    them, as an array of numbers unless `takes_any`. None: it does not know columns by name."""

    takes_any: bool = False
    """Whether these columns may have any type."""

    predicted: "Callable[[], pyarrow.DataType | None] | None" = None
    """Returns the type of a prediction; called after `prepare`. Several outputs are the members of
    a struct. None: unknown."""

    use_type: "Callable[[pyarrow.DataType], None] | None" = None
    """Makes predictions have this type: what all attempts of the run agree on. Called before the
    first batch. A prediction that does not fit is an error of its record, `invalid_prediction`, and
    is never rounded."""

    mismatch: Callable[[Records], str] | None = None
    """Returns how the metadata that `prepare` has read differs from the first records; empty if it
    does not."""

    note: Callable[[], str] | None = None
    """Returns what a dry run should say about that metadata although it may be right; usually
    empty."""


class ModelProtocol(Protocol):
    """A connection to a model server."""

    @property
    def abilities(self) -> ModelAbilities:
        """What the protocol can do besides."""

    @property
    def max_records(self) -> int | None:
        """Maximum number of records in one request; None: whatever suits the server's speed. Valid
        after `prepare`."""

    async def prepare(self) -> None:
        """Query what the model expects, before the first batch. Raises InferenceError."""

    async def predict(self, batch: Batch) -> Results:
        """Send one request, once, and return one result per record, in order. May be called
        concurrently.

        Raises Fault if the request failed, and InferenceError or ContractError if no request can
        succeed.
        """


class SpooledInput(Protocol):
    """Input that can be read only once, on its way to the Pod's disk. Raises InputError over the
    limit or on a full disk."""

    def opened(self) -> AbstractContextManager[object]:
        """Begin the file, again if an earlier try has left a part of it."""

    def write(self, piece: bytes) -> None:
        """Append a piece."""

    def source(self, record_format: RecordFormat) -> Source:
        """Return the source that reads the complete file in a format."""


class StoreServices(Protocol):
    """What the runner does for stores, within the limits of the run."""

    def http_client(
        self, *, tls: "ssl.SSLContext | None" = None
    ) -> AbstractAsyncContextManager[HttpClient]:
        """Open a client. A request fails after `handler_timeout` seconds without data. Without
        `tls`: the image's authorities."""

    async def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` until it raises no transient Fault, or raise the Fault's error after
        `retry_seconds`."""

    def spooled(
        self, name: str, *, what: str, fix: str = ""
    ) -> AbstractContextManager[SpooledInput]:
        """Create a file for input, which is deleted when the context ends.

        `what` and `fix` are parts of the message of an input over the limit: what has too many
        bytes, and what helps besides a larger limit.
        """

    def used_columns(
        self, schema: "pyarrow.Schema", columns: ColumnSelection, *, name: str
    ) -> "pyarrow.Schema":
        """Return which columns of a table are used, in its order; `name` is the table. Raises
        InputError if that is impossible."""

    def block_of(self, rows: "pyarrow.RecordBatch", columns: ColumnSelection) -> Block:
        """Return rows of these columns as records, with their ids and what is copied of them."""

    def output_store(self, label: str) -> "OpenOutput":
        """Return the opener of another output, to build on. Raises ContractError."""

    async def check_address(self, url: str) -> None:
        """Raise OSError if runs must not reach the server of a URL; for clients other than
        `http_client`."""

    def json_texts(self, records: Records) -> Sequence[bytes]:
        """Return one JSON text per record; a row of columns is an array of their values."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What a store may use in addition to its storage object."""

    contract: Contract

    limits: Limits

    pod_uid: str
    """UID of the Pod, which distinguishes concurrent attempts; empty outside a Pod."""

    input_dir: Path
    """Mount point of an input claim, read-only."""

    output_dir: Path
    """Mount point of an output claim."""

    endpoints_dir: Path
    """Contains `input/` and `output/`, the mounted endpoint Secrets with one file per key."""

    spool_dir: Path
    """Folder for temporary files, which are deleted with the Pod."""

    format_named: Callable[[str, str], RecordFormat]
    """`format_named(name, field)` returns the record format of that name. Raises ContractError with
    the field if it is unknown."""

    services: StoreServices
    """What the runner does for stores."""

    columns: ColumnSelection = ALL_COLUMNS
    """The columns of the input that are used."""


StorageObject: TypeAlias = Mapping[str, Json]
OpenInput: TypeAlias = Callable[[StorageObject, StoreContext], AbstractAsyncContextManager[Source]]
OpenOutput: TypeAlias = Callable[
    [StorageObject, StoreContext], AbstractAsyncContextManager[OutputStore]
]


NO_CONTRACT: Final = Contract(job_id="", job_name="")
"""The contract of a model that is used outside a run."""


@dataclass(frozen=True, slots=True)
class ModelContext:
    """What a protocol may use in addition to the model."""

    limits: Limits

    credentials_dir: Path
    """The mounted Secret of the model server, with one file per key; does not exist without one."""

    contract: Contract = NO_CONTRACT
    """What the run is to do."""


OpenModel: TypeAlias = Callable[[Model, ModelContext], AbstractAsyncContextManager[ModelProtocol]]
