"""The results of an ended run for another run that reads them: files on a claim, objects in a bucket, or rows of a table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Protocol

from inferrun.contract import InputRun
from inferrun.formats.named_columns import STORED_RESULTS
from inferrun.manifest import ManifestPart, StoredFile
from inferrun.plugins import ContractError, InputError, ReadableResults, StoreContext, StoredResult
from runner.stores.file.local_files import LocalFile
from runner.stores.input_spool import InputSpool


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """The verified results of a part, on the Pod's disk."""

    results: LocalFile
    errors: LocalFile | None = None


class OrderedRows:
    """The rows of a part. Whoever reads one range after the other reads it once."""

    def __init__(self, opened: Callable[[], Iterator[StoredResult]]) -> None:
        """`opened` returns the rows from the first one."""
        self._opened = opened
        self._rows: Iterator[StoredResult] = iter(())
        self._held: StoredResult | None = None
        self._next = -1
        """The index before which all rows were read; negative: unknown."""

    def between(self, first: int, stop: int) -> Iterator[StoredResult]:
        """Yield the rows with indexes from `first` to `stop`, without `stop`. Raises what the rows raise."""
        if not 0 <= self._next <= first:
            self._rows, self._held = self._opened(), None
        self._next = -1
        for row in chain(filter(None, [self._held]), self._rows):
            if row.index >= stop:
                self._held, self._next = row, max(first, stop)
                return
            if row.index >= first:
                yield row


class StoredResults(Protocol):
    """What all stores of results have in common. Methods block and raise InputError."""

    location: str
    """The location to show."""

    record_format: ReadableResults

    def read_manifest(self) -> bytes | None:
        """Return the manifest, None if there is none."""

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy a part to a folder. Raises InputError if it is not what was committed."""


class CommittedFiles(Protocol):
    """Files that are read. Methods block and raise InputError, and FileNotFoundError for a file that does not exist."""

    def read(self, name: str) -> bytes:
        """Return the content of a small file."""

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of a file that had that size."""


class FolderResults:
    """The folder of a run."""

    def __init__(
        self, files: CommittedFiles, run: InputRun, context: StoreContext, *, root: str, path: str, form: str
    ) -> None:
        """`root`: what to show before the names of files; `path`: of the outputs of all runs; `form`: the name of the format."""
        self._files = files
        self._limit = context.limits.spool_bytes
        self._folder = f"{path.rstrip('/')}/{PurePosixPath(run.job_name).name}"
        self.location = f"{root}/{self._folder}"
        self.record_format = readable_format(context, form)

    def read_manifest(self) -> bytes | None:
        """Read the file."""
        try:
            return self._files.read(f"{self._folder}/manifest.json")
        except FileNotFoundError:
            return None

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy the file of the results, and that of the errors if there is one."""
        errors = self._spool(part.errors, folder / "errors") if part.errors else None
        return SpooledPart(self._spool(part, folder / "results"), errors)

    def _spool(self, file: StoredFile, to: Path) -> LocalFile:
        name = f"{self.location}/{file.file}"
        spool = InputSpool(to, limit=self._limit, what=f"input.run: {name} has")
        try:
            with spool.opened():
                for piece in self._files.pieces(f"{self._folder}/{file.file}", file.bytes):
                    spool.write(piece)
        except FileNotFoundError:
            raise changed(f"{name} is missing") from None
        if spool.digest != file.sha256:
            raise changed(f"{name} has changed")
        return spool.file


def readable_format(context: StoreContext, form: str) -> ReadableResults:
    """Return the format of stored results. Raises ContractError if it cannot be read again."""
    field = f"{STORED_RESULTS}.output.format"
    found = context.format_named(form, field)
    if not isinstance(found, ReadableResults):
        raise ContractError(f"{field}: results of the format {form!r} cannot be read again")
    return found


def changed(what: str) -> InputError:
    """Return the error of results that another attempt would find the same."""
    return InputError(f"input.run: {what} since the run committed its output", is_retryable=False)
