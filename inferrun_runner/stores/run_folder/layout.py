"""How the results are divided into files, as the storage object of an output says."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from inferrun.contract import Contract
from inferrun.manifest import StoredFile
from inferrun.stores.dataset import OutputLayout


def is_partitioned(contract: Contract) -> bool:
    """Whether the results are in the folders of the input. What else the output says is read by its
    store."""
    layouts = [one.get("layout") for one in contract.output.values()]
    return any(isinstance(one, Mapping) and one.get("partitions") == "Input" for one in layouts)


def part_ranges(parts: Sequence[StoredFile], layout: OutputLayout) -> Iterator[range]:
    """Divide chunks, whose results are these files, into consecutive ranges, each of which becomes
    a file of the same folder.

    Whoever knows the same commits finds the same ranges.
    """
    start = total = 0
    folders = [PurePosixPath(part.file).parent for part in parts]
    for at, part in enumerate(parts):
        total += part.bytes
        is_full = total > layout.part_bytes and not layout.single
        if at > start and (is_full or folders[at] != folders[start]):
            yield range(start, at)
            start, total = at, part.bytes
    if parts:
        yield range(start, len(parts))
