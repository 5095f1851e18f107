"""What the storage object of an output says about the files of results: their columns, and how they are divided."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ByteSize, Field

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

    compression: str = ""
    """Compression of the columns of tables; empty: what is usual in the format."""


class ResultSpec(StorageSpec):
    """The members of a storage object that concern files of results."""

    types: dict[str, str] = Field(default_factory=dict)
    """Types of columns by their names."""

    flatten: bool = False
    """Whether each output of the model is a column of its own."""

    layout: Layout = Layout()


def part_ranges(sizes: Sequence[int], layout: Layout) -> Iterator[range]:
    """Divide chunks, whose results have these sizes in bytes, into consecutive ranges, each of which becomes a file.

    Whoever knows the same commits finds the same ranges.
    """
    start = total = 0
    for at, size in enumerate(sizes):
        total += size
        if at > start and total > layout.part_size and not layout.single:
            yield range(start, at)
            start, total = at, size
    if sizes:
        yield range(start, len(sizes))
