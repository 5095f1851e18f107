"""The four seams between the runner's pipeline and what can be added to it: formats, input stores, output stores, protocols."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias, runtime_checkable

from inferrun.contract import Contract, Model
from inferrun.plugins.limits import Limits
from inferrun.plugins.values import (
    Batch,
    Checkpoint,
    Chunk,
    CommittedRun,
    Counts,
    InputPlan,
    Json,
    Prediction,
    ResultCounts,
)
from inferrun.runner_report import Delivery


class RecordFormat(Protocol):
    """How records are stored in files. Ranges are in bytes; a record belongs to the range that contains its first byte.

    All methods block; the pipeline calls them on a thread. OSError may be raised as it is.
    """

    suffix: str
    """The file name extension, with the dot."""

    def count(self, path: Path, *, size: int) -> int:
        """Return the number of records in the first `size` bytes of a file."""
        ...

    def read(self, path: Path, chunk: Chunk, *, size: int, first: int, limits: Limits) -> Iterator[Batch]:
        """Yield the records of a chunk in batches; `first` is the index of the chunk's first record.

        The file is read up to byte `size`. Raises InputError, naming file and line, for a malformed or oversized record.
        """
        ...

    def write(self, out: BinaryIO, batch: Batch, predictions: Sequence[Prediction]) -> int:
        """Append one result per record and return the number of bytes written."""
        ...

    def count_results(self, results: BinaryIO) -> ResultCounts:
        """Count the results in a file that `write` produced, opened for reading."""
        ...


class Source(Protocol):
    """An opened input. Every attempt of a run reads the same chunks from it. All methods block."""

    fingerprint: str
    """Equal for equal inputs; a different fingerprint means that the input has changed."""

    def plan(self) -> InputPlan:
        """Choose the chunk size and count the records. Called only if no earlier attempt made a plan."""
        ...

    def chunks(self, plan: InputPlan) -> Sequence[Chunk]:
        """Return all chunks in order; equal plans give equal chunks."""
        ...

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Batch]:
        """Yield the records of a chunk in batches; `first` is the index of the chunk's first record.

        Raises InputError, naming the place, if a record is malformed or cannot be read.
        """
        ...

    def verify(self) -> None:
        """Raise InputError if the input has changed since it was opened."""
        ...


class OutputStore(Protocol):
    """An opened output. Calls arrive in this order: `open`, `begin`, per chunk any number of `write` and one `commit`, `finish`.

    Every method raises OutputError if the store cannot do what it is asked.
    """

    delivery: Delivery
    """What the store guarantees for each record: ExactlyOnce or AtLeastOnce."""

    commits_chunks: bool
    """Whether `commit` makes a chunk durable. If not, everything is stored by `finish`, and no progress is reported before."""

    async def open(self) -> Checkpoint:
        """Return what has been committed of this run.

        Called again if the attempt fails, to find out whether another attempt has committed the run in the meantime.
        """
        ...

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt already did, and return the stored plan."""
        ...

    async def write(self, batch: Batch, predictions: Sequence[Prediction]) -> None:
        """Add the predictions or errors of a batch, one per record, to the current chunk."""
        ...

    async def commit(self, chunk: Chunk) -> None:
        """Commit everything written since the last commit as this chunk; has no effect if the chunk is already committed."""
        ...

    async def finish(self, counts: Counts) -> CommittedRun:
        """Commit the run; if another attempt already did, return that attempt's result and change nothing.

        If the call is cancelled after the commit, it returns the result; if it raises CancelledError, nothing is committed
        later. Cancellation happens when the process is stopped and the call has not returned within a few seconds.
        """
        ...


@runtime_checkable
class AbortableStore(Protocol):
    """An opened output that can be asked about its run without executing it; optional for an `OutputStore`.

    Used to settle a run whose Pod disappeared. `open` is not called before.
    """

    async def find_commit(self) -> CommittedRun | None:
        """Return the run's commit, None if there is none. Changes nothing."""
        ...

    async def abort(self) -> CommittedRun | None:
        """Return the run's commit; if there is none, ensure that no attempt commits the run later, and return None."""
        ...


class ModelProtocol(Protocol):
    """A connection to a model server."""

    async def prepare(self) -> None:
        """Query what the model expects, before the first batch. Raises InferenceError."""
        ...

    async def predict(self, batch: Batch) -> Sequence[Prediction]:
        """Send one request and return one prediction or error per record, in order. May be called concurrently.

        Raises TransientError if a retry may succeed, otherwise InferenceError.
        """
        ...


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
    """`format_named(name, field)` returns the record format of that name. Raises ContractError with the field if there is none."""


StorageObject: TypeAlias = Mapping[str, Json]
OpenInput: TypeAlias = Callable[[StorageObject, StoreContext], AbstractAsyncContextManager[Source]]
OpenOutput: TypeAlias = Callable[[StorageObject, StoreContext], AbstractAsyncContextManager[OutputStore]]
OpenModel: TypeAlias = Callable[[Model, Limits], AbstractAsyncContextManager[ModelProtocol]]
