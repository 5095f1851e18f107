"""The files of an input, as its store has opened them, and what its storage object says about
them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inferrun.formats.dataset import Dataset
from inferrun.formats.declared import as_declared
from inferrun.plugins import InputFile, PlannedObject, RecordFormat, StoreContext
from inferrun.stores.dataset import DatasetStorage


def opened_format(spec: DatasetStorage, context: StoreContext, *, field: str) -> RecordFormat:
    """Return the format that reads the files; `field` is that of the storage object. Raises
    ContractError."""
    return as_declared(context.format_named(spec.format, f"{field}.format"), spec)


@dataclass(frozen=True, slots=True)
class OpenedDataset:
    """The files of a dataset, as a store has opened them."""

    found: Dataset
    files: Mapping[str, InputFile]
    identify: Callable[[Sequence[PlannedObject]], str]
    """Returns the fingerprint of objects."""

    find_again: Callable[[], Dataset] | None
    """None if the files cannot change while they are read."""

    spec: DatasetStorage
    label: str
    """The field of the contract, such as `input.file`."""

    seal: Callable[[Sequence[PlannedObject]], Sequence[PlannedObject]] = tuple
    """Adds to the tags what `is_same` needs, before the run begins."""

    is_same: Callable[[PlannedObject, PlannedObject], bool] = operator.eq
    """Whether what is found now has the content of what was planned."""

    is_partitioned: bool = False
    """Whether the results of each partition are in files of their own, so that no chunk has records
    of two."""


def spooled(file: InputFile, fingerprint: str) -> OpenedDataset:
    """Return a file to which a store has spooled its input, which may be empty."""
    found = Dataset((PlannedObject(file.name, file.size, ""),))
    return OpenedDataset(
        found,
        {file.name: file},
        lambda _: fingerprint,
        None,
        DatasetStorage(allow_empty=True),
        "input",
    )
