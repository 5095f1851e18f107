"""The seam of stores of files, and the parts of a run in them."""

from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    """One file or object, with its path from the root of the claim or bucket."""

    name: str
    size: int
    tag: str = ""
    """Differs if the content does; empty if the store has no such thing."""


class Files(Protocol):
    """Files that are read. Methods block and raise ResultsUnreachable."""

    def read(self, name: str, *, size: int | None = None) -> bytes | None:
        """Return the content of a file; None if it does not exist, or has another size than given."""

    def find(self, path: str) -> list[FoundFile]:
        """Return the file of that name, or those in the folder of that name, sorted; empty if there is neither."""

    def copy(self, name: str, out: BinaryIO) -> None:
        """Write the content of a file to another one."""
