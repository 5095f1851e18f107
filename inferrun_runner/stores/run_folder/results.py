"""The results of an ended run for another run that reads them: files on a claim, objects in a
bucket, or rows of a table."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Generic, Protocol, TypeVar

from inferrun.contract import InputRun
from inferrun.formats.named_columns import STORED_RESULTS
from inferrun.manifest import ManifestPart, StoredFile
from inferrun.plugins import ContractError, InputError, ReadableResults, StoreContext
from inferrun.stores.dataset import FolderStorage
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.input_spool import disk_errors, too_large
from inferrun_runner.stores.run_folder.files import RunFiles, copied


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """The verified results of a part, on the Pod's disk."""

    results: LocalFile
    errors: LocalFile | None = None


class StoredRow(Protocol):
    """The result of one record."""

    @property
    def index(self) -> int:
        """Index of the record within the whole input."""


R = TypeVar("R", bound=StoredRow)


class OrderedRows(Generic[R]):
    """The rows of parts. Whoever reads one range after the other reads each part once."""

    def __init__(self, opened: Callable[[ManifestPart], Generator[R, None, None]]) -> None:
        """`opened` returns the rows of a part from the first one."""
        self._opened = opened
        self._rows: Generator[R, None, None] | None = None
        self._held: R | None = None
        self._next = "", -1
        """The file of the part that is read, and the index before which all its rows were read;
        negative: unknown."""

    def between(self, part: ManifestPart, first: int, stop: int) -> Iterator[R]:
        """Yield the rows of a part with indexes from `first` to `stop`, without `stop`. Raises what
        the rows raise."""
        file, index = self._next
        if file != part.file or not 0 <= index <= first:
            self.close()  # the copy of the previous part is deleted before there is another one
            self._rows, self._held = self._opened(part), None
        self._next = part.file, -1
        for row in chain(filter(None, [self._held]), self._rows or ()):
            if row.index >= stop:
                self._held, self._next = row, (part.file, max(first, stop))
                return
            if row.index >= first:
                yield row

    def close(self) -> None:
        """Delete what is read."""
        if self._rows:
            self._rows.close()


class StoredResults(Protocol):
    """What all stores of results have in common. Methods block and raise InputError."""

    location: str
    """The location to show."""

    readable: ReadableResults

    def read_manifest(self) -> bytes | None:
        """Return the manifest, None if there is none."""

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy a part to a folder. Raises InputError if it is not what was committed."""


class FolderResults:
    """The folder of a run."""

    def __init__(
        self, files: RunFiles, run: InputRun, context: StoreContext, *, spec: FolderStorage
    ) -> None:
        self._files = files
        self._limit = context.limits.spool_bytes
        self._folder = f"{spec.path.rstrip('/')}/{PurePosixPath(run.job_name).name}"
        self.location = f"{spec.root}/{self._folder}"
        self.readable = readable_format(context, spec.format)

    def read_manifest(self) -> bytes | None:
        """Read the file."""
        return self._files.read(f"{self._folder}/manifest.json")

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy the file of the results, and that of the errors if there is one."""
        return SpooledPart(
            self._copied(part, folder), self._copied(part.errors, folder) if part.errors else None
        )

    def _copied(self, file: StoredFile, folder: Path) -> LocalFile:
        name = f"{self.location}/{file.file}"
        if file.bytes > self._limit:
            raise too_large(f"input.run: {name} has", self._limit)
        with disk_errors(folder):
            copy = copied(self._files, self._folder, file, folder)
        if copy is None:
            raise changed(f"{name} is missing or has changed")
        return LocalFile(copy.parent, copy.name, file.bytes)


def readable_format(context: StoreContext, form: str) -> ReadableResults:
    """Return how stored results of a format are read. Raises ContractError if they cannot be read
    again."""
    field = f"{STORED_RESULTS}.output.format"
    found = context.format_named(form, field).abilities.readable
    if found is None:
        raise ContractError(f"{field}: results of the format {form!r} cannot be read again")
    return found


def changed(what: str) -> InputError:
    """Return the error of results that another attempt would find the same."""
    return InputError(f"input.run: {what} since the run committed its output", is_retryable=False)
