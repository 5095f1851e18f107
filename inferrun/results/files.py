"""The seam of stores of files, and the parts of a run in them."""

from typing import BinaryIO, Protocol

from inferrun.formats.dataset import ListedFile


class Files(Protocol):
    """Files that are read. Methods block and raise ResultsUnreachable."""

    def read(self, name: str, *, size: int | None = None) -> bytes | None:
        """Return the content of a file; None if it does not exist, or has another size than
        given."""

    def find(self, path: str) -> list[ListedFile]:
        """Return the file of that name, or those below the folder of that name; empty if there is
        neither.

        Names are paths from the root of the claim or bucket.
        """

    def copy(self, name: str, out: BinaryIO) -> str:
        """Write the content of a file to another one, and return its Content-Encoding."""
