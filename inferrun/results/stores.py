"""The committed parts of a run, wherever they are. Each part is compared with the manifest before
anything of it is used."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Protocol, cast

from inferrun import formats
from inferrun.manifest import Manifest, ManifestPart, StoredFile
from inferrun.plugins import ReadableResults, RecordFormat
from inferrun.results.access import Access, load
from inferrun.results.bucket import BucketFiles
from inferrun.results.committed import CommittedOutput
from inferrun.results.database import DatabaseRows
from inferrun.results.directory import DirectoryFiles
from inferrun.results.errors import NoResults, ResultsChanged, ResultsUnreachable
from inferrun.results.files import Files
from inferrun.stores import FileStorage, ObjectStorage, SqlStorage

if TYPE_CHECKING:
    from inferrun.results.database import Connection

_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class Part:
    """The verified content of a part."""

    committed: ManifestPart
    results: bytes
    errors: bytes = b""


class PartStore(Protocol):
    """Where the parts of a run are. Methods block and raise ResultsError."""

    location: str
    """The location to show."""

    readable: ReadableResults

    def read_manifest(self) -> bytes | None:
        """Return the manifest, None if there is none."""

    def read(self, parts: Iterable[ManifestPart]) -> Iterator[Part]:
        """Yield the parts, one at a time."""


def open_store(output: CommittedOutput, access: Access) -> PartStore:
    """Return the store of a run's output. Raises ResultsError if the caller has no access to it."""
    match output.store:
        case FileStorage() as storage:
            root, folder = _run_folder(output, storage, access)
            return _Folder(
                DirectoryFiles(root),
                folder,
                name=f"{storage.claim_name}/{folder}",
                form=storage.format,
            )
        case ObjectStorage() as storage:
            folder = _folder_name(output, storage.path)
            return _Folder(
                BucketFiles(storage, access),
                folder,
                name=f"{storage.root}/{folder}",
                form=storage.format,
            )
        case SqlStorage() as storage:
            return _Table(output, DatabaseRows(storage, access), storage)


def load_format(name: str) -> RecordFormat:
    """Return the format of a name: ours, or that of an installed package. Raises NoResults, and
    PackageMissing."""
    points = (*formats.BUILT_IN, *entry_points(group=formats.GROUP))
    found = next((point for point in points if point.name == name), None)
    if found is None:
        raise NoResults(
            f"the format {name!r} is not known here; install the package that provides it"
        )
    return cast("RecordFormat", getattr(load(found.module), found.attr))


def _folder_name(output: CommittedOutput, path: str) -> str:
    return f"{path.rstrip('/')}/{PurePosixPath(output.contract.job_name or output.run_id).name}"


def _run_folder(output: CommittedOutput, storage: FileStorage, access: Access) -> tuple[Path, str]:
    """Return the root of the claim and the run's folder on it, or a copy of the folder."""
    folder = _folder_name(output, storage.path)
    root = access.claim(storage.claim_name)
    if root is None:
        raise ResultsUnreachable(
            f"the results of {output.run} are on claim {storage.claim_name!r}, which only Pods reach; in a Pod that mounts it, "
            f"pass directory= with its path; elsewhere, that of a copy of its folder {folder}, made with "
            "kubectl cp through such a Pod"
        )
    is_copy = not (root / folder).is_dir() and (root / _MANIFEST).is_file()
    return root, "." if is_copy else folder


class _Folder:
    """The files of a run on a claim or in a bucket."""

    def __init__(self, files: Files, folder: str, *, name: str, form: str) -> None:
        self.location = name
        found = load_format(form).abilities.readable
        if found is None:
            raise NoResults(f"results of the format {form!r} cannot be read")
        self.readable = found
        self._files = files
        self._folder = folder

    def read_manifest(self) -> bytes | None:
        """Read the file."""
        return self._files.read(f"{self._folder}/{_MANIFEST}")

    def read(self, parts: Iterable[ManifestPart]) -> Iterator[Part]:
        """Read the files of one part after the other."""
        for part in parts:
            yield Part(
                part, self._content(part), self._content(part.errors) if part.errors else b""
            )

    def _content(self, file: StoredFile) -> bytes:
        content = self._files.read(f"{self._folder}/{file.file}", size=file.bytes)
        if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
            raise ResultsChanged(
                f"{self.location}/{file.file} is missing or has changed since the run committed it"
            )
        return content


class _Table:
    """The rows of a run in a database."""

    def __init__(
        self, output: CommittedOutput, database: DatabaseRows, storage: SqlStorage
    ) -> None:
        from inferrun.formats.copy_text import ROWS_OF_COPY, table_names  # noqa: PLC0415  needs orjson, as the other formats

        self.location = f"table {storage.table}"
        self.readable = ROWS_OF_COPY
        self._run = output.run_id
        self._database = database
        names = table_names(storage.table)
        self._table, self._runs = names["table"], names["runs"]

    def read_manifest(self) -> bytes | None:
        """Read the row of the run."""
        query = f"select manifest from {self._runs} where run = %s"  # noqa: S608  a name
        with self._database.connected() as connection:
            row = connection.execute(query.encode(), [self._run]).fetchone()
        return str(row[0]).encode() if row and row[0] else None

    def read(self, parts: Iterable[ManifestPart]) -> Iterator[Part]:
        """Copy the rows of one part after the other. They are all of the same state of the
        table."""
        from inferrun.formats.copy_text import SETTINGS, TableRows, digest_of, quoted  # noqa: PLC0415  as above

        manifest = Manifest.model_validate_json(self.read_manifest() or b"")
        roles = {one.name: one.role for one in manifest.columns or ()}
        with self._database.connected() as connection:
            connection.isolation_level = load("psycopg").IsolationLevel.REPEATABLE_READ
            for name, value in SETTINGS.items():
                connection.execute("select set_config(%s, %s, true)", [name, value])
            table = TableRows(roles)
            columns = ", ".join(map(quoted, table.names))
            for part in parts:
                first, last = part.first, part.first + part.records - 1
                rows = f"from {self._table} where run = '{self._run}' and index between {first} and {last}"
                content = self._copy(
                    connection, f"select {table.lines('run')} {rows} order by index"
                )
                ((digest, _),) = connection.execute(
                    digest_of(f"select index, {columns} {rows}").encode()
                )
                if digest != part.sha256 or content.count(b"\n") != part.records:
                    raise ResultsChanged(
                        f"{self.location}: the rows of records {first} to {last} have changed since the run committed them"
                    )
                yield Part(part, content)

    def _copy(self, connection: "Connection", query: str) -> bytes:
        with (
            closing(connection.cursor()) as cursor,
            cursor.copy(f"copy ({query}) to stdout".encode()) as rows,
        ):
            return b"".join(map(bytes, rows))
