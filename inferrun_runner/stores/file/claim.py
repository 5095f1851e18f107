"""The files of a claim to which a run writes. A finished file gets its name at once, and is durable
before and with its name.

So a visible name always stands for complete content, regardless of which attempt wrote it and of
crashes. No link is followed out of the claim.
"""

import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from inferrun.formats.dataset import ListedFile
from inferrun.plugins import OutputError, RunnerError
from inferrun.plugins.limits import KIB
from inferrun.stores import FileStorage
from inferrun_runner.stores.disk import NO_INODES, refusal
from inferrun_runner.stores.file.beneath import LinkOutside, open_file, opened_folder

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_UNSUPPORTED: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK, errno.EIO}
)
"""What file systems answer to what they cannot do: rclone 1.60 mounts with EIO, 1.76 with EPERM,
s3fs 1.90 with EOPNOTSUPP."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class ClaimFiles:
    """The files below the root of a claim. What is written is in a hidden file beside its name
    until it is complete."""

    def __init__(
        self,
        root: Path,
        spec: FileStorage,
        *,
        side: str = "output",
        error: type[RunnerError] = OutputError,
    ) -> None:
        """`side`: the part of the contract; what another run has committed is only read."""
        self._root = root
        self._spec = spec
        self._side = side
        self._error = error
        self._process = uuid.uuid4().hex
        """In the names of drafts. Another process must not open them, not even of the same Pod: one
        that died may have left a link to a file that has its name already."""

    def create(self, name: str, content: bytes) -> bool:
        """Store a file unless the name exists; return False if it does, with another content."""
        with self._errors(), self._drafted(name, content) as (folder, draft, final):
            has_won = _publish(draft, final)
            _sync(folder)
            if has_won:
                return True
            with open_file(final) as file:
                return file.read() == content

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if the name does not exist."""
        with self._errors(), suppress(FileNotFoundError), self._opened(name) as (folder, file):
            content = file.read()
            if self._side == "output":
                _sync(folder)  # the attempt that published the name may have died before it did
            return content
        return None

    def pieces(self, name: str, size: int) -> Iterator[bytes]:  # noqa: ARG002  the seam's
        """Yield the content of a file."""
        with self._errors(), suppress(FileNotFoundError), self._opened(name) as (_, file):
            while piece := file.read(64 * KIB):
                yield piece

    def list_below(self, folder: str) -> list[ListedFile]:
        """Return the files below a folder, also those that are not complete."""
        found: list[ListedFile] = []
        with (
            self._errors(),
            suppress(FileNotFoundError),
            opened_folder(self._root, folder) as opened,
            os.scandir(opened) as entries,
        ):
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    found += self.list_below(f"{folder}{one.name}/")
                    continue
                with suppress(FileNotFoundError):  # deleted a moment ago
                    found.append(
                        ListedFile(folder + one.name, one.stat(follow_symlinks=False).st_size)
                    )
        return found

    def put(self, name: str, content: bytes | Path) -> None:
        """Store bytes or a file, whether or not the name exists."""
        with self._errors(), self._drafted(name, content) as (folder, draft, final):
            draft.replace(final)
            _sync(folder)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files, and then their folders if nothing else is in them."""
        for name in names:
            parent, last = _split(name)
            with (
                self._errors(),
                suppress(FileNotFoundError),
                opened_folder(self._root, parent) as folder,
            ):
                (folder / last).unlink()
        for parent, last in {_split(_split(name)[0]) for name in names}:
            with suppress(OSError), opened_folder(self._root, parent) as folder:
                (folder / last).rmdir()

    def check(self, folder: str) -> None:
        """Verify that names can be published exclusively, in the deepest folder of the path that
        exists.

        Some FUSE and network file systems offer neither hard links nor no-replace renames, or
        replace the existing name.
        """
        with self._errors():
            for parent in (folder, *map(str, PurePosixPath(folder).parents)):
                with suppress(FileNotFoundError), opened_folder(self._root, parent) as opened:
                    probe = opened / f".inferrun-probe-{self._process}"
                    probe.mkdir()
                    try:
                        self._check_exclusive(probe)
                    finally:
                        shutil.rmtree(probe, ignore_errors=True)
                    return

    def _check_exclusive(self, folder: Path) -> None:
        drafts, final = (folder / "probe-1", folder / "probe-2"), folder / "probe"
        try:
            for draft in drafts:
                draft.write_text(draft.name)
            has_won = [_publish(draft, final) for draft in drafts]
            if has_won != [True, False] or final.read_text() != drafts[0].name:
                raise OSError(errno.EOPNOTSUPP, "the file system replaces existing names")
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            drafts[0].write_text(drafts[0].name)  # a volume that is broken fails again here
            raise OutputError(
                f"output.file: the volume of claim {self._spec.claim_name!r} supports neither hard links nor no-replace "
                "renames, so chunks cannot be committed exactly once; use a claim of another storage class",
                is_retryable=False,
            ) from error

    @contextmanager
    def _drafted(self, name: str, content: bytes | Path) -> Iterator[tuple[Path, Path, Path]]:
        """Write durable content; return the folder, the draft, which is deleted afterwards, and the
        final path."""
        parent, last = _split(name)
        with opened_folder(self._root, parent, create=True) as folder:
            draft = folder / f".{last}.{self._process}"
            try:
                with (
                    content.open("rb") if isinstance(content, Path) else BytesIO(content) as source,
                    os.fdopen(os.open(draft, _NEW, 0o666), "wb") as out,
                ):
                    shutil.copyfileobj(source, out, 1 << 20)
                    out.flush()
                    os.fsync(out.fileno())
                yield folder, draft, folder / last
            finally:
                draft.unlink(missing_ok=True)

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[Path, BinaryIO]]:
        """Open a file for reading, together with its folder."""
        parent, last = _split(name)
        with opened_folder(self._root, parent) as folder, open_file(folder / last) as file:
            yield folder, file

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            verb = "write to" if self._side == "output" else "read"
            why = refusal(error, self._root)
            fix = "delete files on the claim" if why == NO_INODES else _fix(error)
            raise self._error(
                f"{self._side}.file: cannot {verb} path {self._spec.path!r} on claim {self._spec.claim_name!r}: {why}; {fix}",
                is_retryable=error.errno != errno.ELOOP,
            ) from error


def _split(name: str) -> tuple[str, str]:
    path = PurePosixPath(name)
    return str(path.parent), path.name


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _publish(draft: Path, final: Path) -> bool:
    """Give a draft its final name, atomically; False if that name exists. The draft may still exist
    afterwards.

    File systems without hard links have Linux's renameat2, which Python does not expose.
    """
    try:
        os.link(draft, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    else:
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, bytes(draft), _AT_FDCWD, bytes(final), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        return False
    raise OSError(
        code,
        f"the file system supports neither hard links nor no-replace renames ({os.strerror(code)})",
    )


def _fix(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "the runner runs as user 65532; make the volume writable for that user or group"
        case errno.ELOOP:
            is_folder = isinstance(error, LinkOutside)
            return (
                "replace the link with a folder"
                if is_folder
                else "remove the links from the folder of the run"
            )
        case errno.EROFS:
            return "the volume is mounted read-only; use a claim with a writable access mode"
        case errno.ENOSPC | errno.EDQUOT:
            return (
                "free space on the claim; the next attempt continues after the last committed chunk"
            )
        case _:
            return "check the volume"
