"""The seams between the runner's pipeline and what can be added to it: formats, input stores, output stores, protocols."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from inferrun.contract import Contract, Model, RetriedRun
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
    """A file that a store provides to a format. It can be opened any number of times, from several threads."""

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


class RecordFormat(Protocol):
    """How records are stored in files. Each format chooses the measure of its ranges: bytes, row groups, …

    All methods block; the pipeline calls them on a thread. OSError may be raised as it is.
    """

    suffixes: tuple[str, ...]
    """The file name extensions of its input, with the dot; empty: every file."""

    results_suffix: str
    """The extension of result files, and of error files of a `TypedResultFormat`. Those of others are JSON lines."""

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of about `chunk_bytes`, each with at least one record, and count their records."""

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the records of a chunk, whose end may be beyond that of the file.

        A malformed record has an error in its block, or raises InputError if the records after it cannot be read; both name the
        file and the place.
        """

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: "pyarrow.Schema | None" = None) -> ResultWriter:
        """Return a writer of results to `out`. `schema`: the columns of the results, for a `TypedResultFormat`.

        The errors of failed records are written to `errors`, too, or only to it: one JSON object per line, or a table.
        """


@runtime_checkable
class TypedFormat(Protocol):
    """A format whose files say which columns they have, and of which types; optional for a `RecordFormat`."""

    columns: ColumnSelection
    """What is used of them."""

    def schema(self, file: InputFile) -> "pyarrow.Schema":
        """Return all columns of a file, without reading its records. Raises InputError."""

    def with_schema(self, schema: "pyarrow.Schema") -> RecordFormat:
        """Return the format that reads files as if all had these columns. A value that does not fit is an error of its record."""


@runtime_checkable
class TypedResultFormat(Protocol):
    """A format whose result files have typed columns, which are the same in all files of a run; optional for a `RecordFormat`.

    Its writers need a schema. A result that does not fit is an error of its record. Error files are of the same format, with the
    same columns except those of the predictions.
    """

    has_typed_results: Literal[True]


@runtime_checkable
class CompressedResults(Protocol):
    """A format whose result files are compressed inside; optional for a `RecordFormat`."""

    def with_compression(self, name: str) -> RecordFormat:
        """Return the format that writes files with this compression. Raises ValueError, which says what is allowed."""


@runtime_checkable
class ColumnFormat(Protocol):
    """A format whose records have named columns; optional for a `RecordFormat`.

    Its writers store `Batch.copied`.
    """

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns. It raises InputError for a file that does not have them."""


class Source(Protocol):
    """An opened input. Every attempt of a run reads the same chunks from it. All methods block."""

    fingerprint: str
    """Equal for equal inputs; a different fingerprint means that the input has changed."""

    def plan(self) -> InputPlan:
        """Divide the input into chunks and count the records. Called only if no earlier attempt made a plan."""

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the records of a chunk, which may be part of another attempt's plan; may be called again.

        Raises InputError, naming the place, if a record is malformed or cannot be read.
        """

    def verify(self) -> None:
        """Raise InputError if the input has changed since it was opened."""


@runtime_checkable
class AdoptingSource(Protocol):
    """A source that reads what the plan of the run says, not what it finds; optional for a `Source`."""

    def adopt(self, plan: InputPlan) -> None:
        """Read the objects and columns of a plan; called in every attempt before `read`. Raises InputError. Blocks."""


@runtime_checkable
class PeekableSource(Protocol):
    """A source that finds its first chunk without counting all records; optional for a `Source`. Checks use it."""

    def first_chunk(self) -> Chunk | None:
        """Return a chunk that begins with the first record, None if the input has no records. Blocks."""


class ChunkWriter(Protocol):
    """Writes the results of one chunk and commits them."""

    async def write(self, batch: Batch, results: Results) -> None:
        """Add the results of the next records of the chunk."""

    async def commit(self) -> ChunkCommit:
        """Commit the chunk; if it is already committed, discard what was written and return the committed one."""


class OutputStore(Protocol):
    """An opened output. Calls arrive in this order: `open`, `begin`, per chunk a `writer`, `finish`.

    Every method raises OutputError if the store cannot execute it. Uncommitted data is discarded when the store is
    closed.
    """

    delivery: Delivery
    """What the store guarantees for each record: ExactlyOnce or AtLeastOnce."""

    commits_chunks: bool
    """Whether a chunk's `commit` makes it durable. If not, everything is stored by `finish`, no progress is reported before, and
    chunks are written in order, one at a time."""

    async def open(self) -> Checkpoint:
        """Return what has been committed of this run.

        Called again if the attempt fails, to find out whether another attempt has committed the run in the meantime.
        """

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt already did, and return the stored plan."""

    def writer(self, chunk: Chunk) -> ChunkWriter:
        """Return the only writer of a chunk in this attempt."""

    async def finish(self, counts: Counts) -> CommittedRun:
        """Commit the run; if another attempt already did, return that attempt's result and change nothing.

        If the call is cancelled after the commit, it returns the result; if it raises CancelledError, nothing is committed
        later; and as long as it cannot know, it waits. Cancellation happens when the process is stopped and the call has not
        returned within a few seconds. A second later the process ends, and leaves the question to `find_commit` and `abort`.
        """


@runtime_checkable
class PipelinedStore(Protocol):
    """An opened output whose chunks are committed several at a time; optional for an `OutputStore`.

    While chunks are being committed, the next one is written. They may complete in any order.
    """

    commits_at_a_time: int


@runtime_checkable
class AbortableStore(Protocol):
    """An opened output that can be asked about its run without executing it; optional for an `OutputStore`.

    Used to settle a run whose Pod disappeared. `open` is not called before.
    """

    async def find_commit(self) -> CommittedRun | None:
        """Return the run's commit, None if the run is not committed. Changes nothing."""

    async def abort(self) -> CommittedRun | None:
        """Return the run's commit; without a commit, ensure that no attempt commits the run later, and return None."""


@runtime_checkable
class SharedStore(Protocol):
    """An opened output whose chunks several Pods divide among themselves (`shards`); optional for an `OutputStore`.

    Called after `begin`. Claims and members only save work, so they need not be durable. `finish` is called after `read_commits`.
    """

    async def claim(self, claim: Claim) -> bool:
        """Record a claim, and return whether it was the first with its chunk and generation."""

    async def report(self, member: Member) -> None:
        """Replace what the Pod said about itself before."""

    async def survey(self) -> Survey:
        """Return what all Pods of the run have done so far."""

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Return all committed chunks, whichever Pod committed them."""


@runtime_checkable
class PartedStore(Protocol):
    """An opened output that keeps the results in files; optional for an `OutputStore`."""

    async def committed_parts(self) -> Sequence[StoredPart]:
        """Return the files of the committed run, in order. Raises OutputError if it is not committed."""


@runtime_checkable
class ProbedStore(Protocol):
    """An opened output that can be checked for a dry run; optional for an `OutputStore`. `open` is not called before."""

    async def probe(self) -> str:
        """Verify that the output can be written, leave nothing behind, and return the location. Raises OutputError."""


class ModelProtocol(Protocol):
    """A connection to a model server."""

    @property
    def max_records(self) -> int | None:
        """Maximum number of records in one request; None: whatever suits the server's speed. Valid after `prepare`."""

    async def prepare(self) -> None:
        """Query what the model expects, before the first batch. Raises InferenceError."""

    async def predict(self, batch: Batch) -> Results:
        """Send one request, once, and return one result per record, in order. May be called concurrently.

        Raises Fault if the request failed, and InferenceError or ContractError if no request can succeed.
        """


class EarlierResults(Protocol):
    """The results of a run that another run completes."""

    plan: InputPlan
    """The plan of that run, which the other one adopts if the input is the same."""

    kept: int
    """The number of its predictions."""

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk as JSON texts, by the index of their records; empty if it is not committed. Blocks.

        Raises OutputError if they have changed since they were committed.
        """

    def results(self) -> Iterator[StoredResult]:
        """Yield all committed results with their ids; of failed records at least the ids. Blocks. Raises OutputError as above."""


@runtime_checkable
class RetriedStore(Protocol):
    """An opened output in which the results of an ended run can be found (`retryOf`); optional for an `OutputStore`."""

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Return the results of that run, None if it has none. Raises OutputError if they are incomplete."""


@runtime_checkable
class CopyingStore(Protocol):
    """An opened output that stores `Batch.copied`; optional for an `OutputStore`."""

    stores_copied: Literal[True]


@runtime_checkable
class TypedStore(Protocol):
    """An opened output whose results have typed columns; optional for an `OutputStore`.

    The plan that `begin` gets then has a `result_schema`.
    """

    result_options: ResultOptions | None
    """None: the results have no typed columns after all."""


@runtime_checkable
class GroupingModel(Protocol):
    """A protocol whose requests cannot have any records together; optional for a `ModelProtocol`.

    Its `predict` raises MixedBatch before it sends anything.
    """

    def groups_of(self, records: Records) -> Sequence[Sequence[int]]:
        """Return the positions of the records that may be in one request, for each request."""


@runtime_checkable
class ColumnModel(Protocol):
    """A protocol that sends named columns of the input; optional for a `ModelProtocol`."""

    takes_any: bool
    """Whether the columns may have any type."""

    def fed_columns(self) -> tuple[str, ...]:
        """Return the columns that it needs, each once, according to the contract; called before `prepare`.

        Empty: all of them, as an array of numbers unless it takes any type. Raises ContractError.
        """


@runtime_checkable
class DescribedModel(Protocol):
    """A protocol that knows the type of its predictions; optional for a `ModelProtocol`."""

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction; called after `prepare`. Several outputs are the members of a struct. None: unknown."""

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions of this type: what all attempts of the run agree on. Called before the first batch.

        A prediction that does not fit is an error of its record, `invalid_prediction`, and is never rounded.
        """


@runtime_checkable
class ReadableResults(Protocol):
    """A format whose result files can be read again; optional for a `RecordFormat`."""

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:
        """Yield the results in the files of a chunk, in order; without `errors`, failed records may be missing. Blocks.

        Raises ValueError for another file, and OSError.
        """


@runtime_checkable
class JoinableResults(Protocol):
    """A format whose result files can be joined; optional for a `RecordFormat`. The results of others are one file per chunk."""

    def join_files(self, files: Sequence[InputFile], out: BinaryIO, *, schema: "pyarrow.Schema | None" = None) -> None:
        """Write the results in files of consecutive chunks, in order, to one file, and complete it without closing it. Blocks.

        Each is opened one at a time, and again if necessary. `schema`: as for `RecordFormat.writer`.
        """


@runtime_checkable
class CheckedModel(Protocol):
    """A protocol whose model describes its input; optional for a `ModelProtocol`."""

    def mismatch(self, records: Records) -> str:
        """Return how the metadata that `prepare` has read differs from the first records; empty if it does not."""

    def note(self) -> str:
        """Return what a dry run should say about the metadata although it may be right; usually empty."""


class SpooledInput(Protocol):
    """Input that can be read only once, on its way to the Pod's disk. Raises InputError over the limit or on a full disk."""

    def opened(self) -> AbstractContextManager[object]:
        """Begin the file, again if an earlier try has left a part of it."""

    def write(self, piece: bytes) -> None:
        """Append a piece."""

    def source(self, record_format: RecordFormat) -> Source:
        """Return the source that reads the complete file in a format."""


class StoreServices(Protocol):
    """What the runner does for stores, within the limits of the run."""

    def http_client(self, *, tls: "ssl.SSLContext | None" = None) -> AbstractAsyncContextManager[HttpClient]:
        """Open a client. A request fails after `handler_timeout` seconds without data. Without `tls`: the image's authorities."""

    async def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` until it raises no transient Fault, or raise the Fault's error after `retry_seconds`."""

    def spooled(self, name: str, *, what: str, fix: str = "") -> AbstractContextManager[SpooledInput]:
        """Create a file for input, which is deleted when the context ends.

        `what` and `fix` are parts of the message of an input over the limit: what has too many bytes, and what helps besides a
        larger limit.
        """

    def used_columns(self, schema: "pyarrow.Schema", columns: ColumnSelection, *, name: str) -> "pyarrow.Schema":
        """Return which columns of a table are used, in its order; `name` is the table. Raises InputError if that is impossible."""

    def block_of(self, rows: "pyarrow.RecordBatch", columns: ColumnSelection) -> Block:
        """Return rows of these columns as records, with their ids and what is copied of them."""

    def output_store(self, label: str) -> "OpenOutput":
        """Return the opener of another output, to build on. Raises ContractError."""

    async def check_address(self, url: str) -> None:
        """Raise OSError if runs must not reach the server of a URL; for clients other than `http_client`."""

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
    """`format_named(name, field)` returns the record format of that name. Raises ContractError with the field if it is unknown."""

    services: StoreServices
    """What the runner does for stores."""

    columns: ColumnSelection = ALL_COLUMNS
    """The columns of the input that are used."""


StorageObject: TypeAlias = Mapping[str, Json]
OpenInput: TypeAlias = Callable[[StorageObject, StoreContext], AbstractAsyncContextManager[Source]]
OpenOutput: TypeAlias = Callable[[StorageObject, StoreContext], AbstractAsyncContextManager[OutputStore]]


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
