"""The files of an input, as its store has opened them, and what its storage object says about them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from inferrun.formats.csv.dialect import CsvDialect
from inferrun.formats.csv.format import Csv
from inferrun.formats.dataset import Dataset
from inferrun.formats.jsonl.format import Jsonl
from inferrun.plugins import ContractError, InputFile, PlannedObject, RecordFormat, StoreContext
from inferrun.plugins.storage import StorageSpec


class DatasetSpec(StorageSpec):
    """What the storage object of an input may say about its files and their columns."""

    format: str = Field(default="jsonl", min_length=1)
    csv: CsvDialect | None = None
    partitions: dict[str, str] = Field(default_factory=dict)
    types: dict[str, str] = Field(default_factory=dict)
    missing_columns: Literal["Fail", "Null"] = Field(default="Fail", alias="missingColumns")
    allow_empty: bool = Field(default=False, alias="allowEmpty")

    @property
    def states_format(self) -> bool:
        """Whether the format is not only the default."""
        return "format" in self.model_fields_set

    def opened_format(self, context: StoreContext, *, field: str) -> RecordFormat:
        """Return the format that reads the files; `field` is that of the storage object. Raises ContractError."""
        found = context.format_named(self.format, f"{field}.format")
        if self.missing_columns == "Null" and isinstance(found, Jsonl):
            found = found.with_nulls()
        if self.csv is None:
            return found
        if not isinstance(found, Csv):
            raise ContractError(
                f"{field}.csv: it is for the format csv, not {self.format}; remove it, or set format: csv"
            )
        return found.with_dialect(self.csv)


@dataclass(frozen=True, slots=True)
class OpenedDataset:
    """The files of a dataset, as a store has opened them."""

    found: Dataset
    files: Mapping[str, InputFile]
    identify: Callable[[Sequence[PlannedObject]], str]
    """Returns the fingerprint of objects."""

    find_again: Callable[[], Dataset] | None
    """None if the files cannot change while they are read."""

    spec: DatasetSpec
    label: str
    """The field of the contract, such as `input.file`."""

    seal: Callable[[Sequence[PlannedObject]], Sequence[PlannedObject]] = tuple
    """Adds to the tags what `is_same` needs, before the run begins."""

    is_same: Callable[[PlannedObject, PlannedObject], bool] = operator.eq
    """Whether what is found now has the content of what was planned."""

    is_partitioned: bool = False
    """Whether the results of each partition are in files of their own, so that no chunk has records of two."""


def spooled(file: InputFile, fingerprint: str) -> OpenedDataset:
    """Return a file to which a store has spooled its input, which may be empty."""
    found = Dataset((PlannedObject(file.name, file.size, ""),))
    return OpenedDataset(found, {file.name: file}, lambda _: fingerprint, None, DatasetSpec(allow_empty=True), "input")
