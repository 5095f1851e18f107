"""What the storage object of an output says about the files of results: their columns, and how they are divided."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ByteSize, Field, model_validator

from inferrun.contract import Contract
from inferrun.manifest import StoredFile
from inferrun.plugins.limits import MIB
from inferrun.plugins.storage import StorageSpec


def _with_unit(size: Any) -> Any:  # Any: what the storage object contains
    return f"{size}B" if isinstance(size, str) and size[-1:].isalpha() else size


class Layout(StorageSpec):
    """How results are divided into files."""

    part_size: Annotated[ByteSize, BeforeValidator(_with_unit), Field(ge=0)] = Field(
        default=ByteSize(128 * MIB), alias="partSize"
    )
    """Bytes that a file of several chunks has at most."""

    single: bool = False
    """Whether there is only one file, whatever its size."""

    partitions: Literal["None", "Input"] = "None"
    """Whether the files are in folders such as those of the input's files."""

    compression: str = ""
    """Compression of the columns of tables; empty: what is usual in the format."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.partitions == "Input" and self.single:
            raise ValueError(
                "with single: true, the only file cannot be in several folders; remove single or partitions"
            )
        return self


class ResultSpec(StorageSpec):
    """The members of a storage object that concern files of results."""

    types: dict[str, str] = Field(default_factory=dict)
    """Types of columns by their names."""

    flatten: bool = False
    """Whether each output of the model is a column of its own."""

    layout: Layout = Layout()


def is_partitioned(contract: Contract) -> bool:
    """Whether the results are in the folders of the input. What else the output says is read by its store."""
    layouts = [one.get("layout") for one in contract.output.values()]
    return any(isinstance(one, Mapping) and one.get("partitions") == "Input" for one in layouts)


def part_ranges(parts: Sequence[StoredFile], layout: Layout) -> Iterator[range]:
    """Divide chunks, whose results are these files, into consecutive ranges, each of which becomes a file of the same folder.

    Whoever knows the same commits finds the same ranges.
    """
    start = total = 0
    folders = [PurePosixPath(part.file).parent for part in parts]
    for at, part in enumerate(parts):
        total += part.bytes
        is_full = total > layout.part_size and not layout.single
        if at > start and (is_full or folders[at] != folders[start]):
            yield range(start, at)
            start, total = at, part.bytes
    if parts:
        yield range(start, len(parts))
