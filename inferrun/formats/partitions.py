"""The columns that the path of a file has: `dt=2026-11-23/` says that the column dt of its rows is
that date. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from inferrun.plugins import InputFile, Json

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of such a column."""

    text: str | None
    """The value's text in the path; None for a missing value."""

    kind: str
    """The name of its type, as `parse_type` knows it."""


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file of a dataset, with the columns that its path has."""

    name: str
    file: InputFile
    partition: Mapping[str, PartitionValue]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.file.size

    def open(self) -> BinaryIO:
        """Open the file."""
        return self.file.open()


@runtime_checkable
class PartitionedFile(Protocol):
    """A file whose path has columns; optional for an `InputFile`."""

    partition: Mapping[str, PartitionValue]


def partition_of(file: InputFile) -> Mapping[str, PartitionValue]:
    """Return the columns of a file's path."""
    return file.partition if isinstance(file, PartitionedFile) else {}


def json_values(file: InputFile) -> dict[str, Json]:
    """Return the same columns with values as JSON has them: integers as numbers, others as text."""
    return {
        name: int(one.text) if one.text is not None and "int" in one.kind else one.text
        for name, one in partition_of(file).items()
    }


def scalar_of(value: PartitionValue) -> "pyarrow.Scalar":
    """Return a value with its type. Raises ArrowException or ValueError if the text is none of that
    type."""
    import pyarrow  # noqa: PLC0415  only runs with columns pay for its import

    from inferrun.formats.result_schema import parse_type  # noqa: PLC0415  as above

    return pyarrow.scalar(value.text, pyarrow.string()).cast(parse_type(value.kind))
