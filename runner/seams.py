"""The four seams of the data plane. An implementation is found by its entry point, and named by it.

    inferrun.stores.input    label under `storage.input`     -> OpenInput
    inferrun.stores.output   label under `storage.output`    -> OpenOutput
    inferrun.protocols       `kserve.modelVersion`           -> OpenModel
    inferrun.formats         `format` of a storage object    -> RecordFormat

An opener gets the storage object of its label (or the model) and the Surroundings, checks what it was given before it does
any I/O (ContractError: the field and what is allowed), and yields the open thing. It never reads the environment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from inferrun.contract import Contract, Model
from inferrun.runner_report import Delivery
from runner.settings import Settings
from runner.values import Chunk, Counts, CustomId, Cut, Finished, Json, Memory, Records


class RecordFormat(Protocol):
    """How records stand in files. Ranges are bytes; a record belongs to the range that it starts in."""

    suffix: str
    """The ending of the files' names, with the dot."""

    def count(self, path: Path, *, size: int) -> int:
        """Records in the first `size` bytes of a file. Blocking."""
        ...

    def read(self, path: Path, chunk: Chunk, *, size: int, first: int, settings: Settings) -> Iterator[Records]:
        """The batches of a range, the first record having index `first`. Blocking; raises InputError with the place."""
        ...

    def write(self, out: BinaryIO, records: Records, predictions: Sequence[Json]) -> int:
        """Append one result per record; the bytes written are returned. Blocking."""
        ...

    def count_results(self, path: Path) -> int:
        """Results in a file that `write` filled. Blocking."""
        ...


class Source(Protocol):
    """An input that can be read again alike: chunk for chunk, by any attempt."""

    fingerprint: str
    """Equal for equal inputs; another one means that the input changed."""

    def survey(self) -> Cut:
        """Cut the input and count its records; asked only where no earlier attempt did. Blocking."""
        ...

    def chunks(self, cut: Cut) -> Sequence[Chunk]:
        """All chunks of the input in order, the same for the same cut."""
        ...

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Records]:
        """The batches of a chunk, the first record having index `first`. Blocking; raises InputError with the place."""
        ...

    def verify(self) -> None:
        """Raise InputError if the input changed while it was read. Blocking."""
        ...


class OutputStore(Protocol):
    """Where predictions go. Calls come in order: `open`, `begin`, for each chunk any `write` and one `commit`, `finish`."""

    delivery: Delivery

    async def open(self) -> Memory:
        """What earlier attempts of this run left; raises OutputError where nothing can be written."""
        ...

    async def begin(self, cut: Cut) -> Cut:
        """Offer the cut; the one in force is returned, which is another attempt's when that was first."""
        ...

    async def write(self, records: Records, predictions: Sequence[Json]) -> None:
        """Take the predictions of a batch, one per record."""
        ...

    async def commit(self, chunk: Chunk) -> None:
        """Make what was written since the last commit durable as this chunk; a chunk committed before stays as it is."""
        ...

    async def finish(self, counts: Counts) -> Finished:
        """Commit the run, once; where another attempt did, its result is returned and nothing changes."""
        ...


class ModelProtocol(Protocol):
    """How a model server is spoken to."""

    async def prepare(self) -> None:
        """Learn what the model expects, before the first batch; raises InferenceError."""
        ...

    async def predict(self, records: Records) -> Sequence[Json]:
        """One prediction per record, in order; raises InferenceError. Several calls may be under way at once."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an opener may use beside its own object: the whole contract, the settings, the other formats."""

    contract: Contract
    settings: Settings
    format_named: Callable[[str, str], RecordFormat]
    """`format_named(name, field)`: the record format of that name; raises ContractError that names the field."""


StorageObject: TypeAlias = Mapping[str, Json]
OpenInput: TypeAlias = Callable[[StorageObject, Surroundings], AbstractAsyncContextManager[Source]]
OpenOutput: TypeAlias = Callable[[StorageObject, Surroundings], AbstractAsyncContextManager[OutputStore]]
OpenModel: TypeAlias = Callable[[Model, Surroundings], AbstractAsyncContextManager[ModelProtocol]]

__all__ = [
    "Chunk",
    "Counts",
    "CustomId",
    "Cut",
    "Finished",
    "Json",
    "Memory",
    "ModelProtocol",
    "OpenInput",
    "OpenModel",
    "OpenOutput",
    "OutputStore",
    "RecordFormat",
    "Records",
    "Source",
    "StorageObject",
    "Surroundings",
]
