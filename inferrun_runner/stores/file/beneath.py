"""Opens files and folders of a claim without leaving it: a link that points outside is refused.

Whoever may write to a claim may put a link on it, and the runner's container contains other files:
mounted Secrets, its own temporary files. Each component of a path is opened relative to the one
before. Links within the claim are followed.

An opened folder is used through `/proc/self/fd`, so that it stays the same folder whatever happens
to its name.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_MAX_LINKS = 40
"""The links that Linux follows."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkOutside(OSError):
    """A link leads out of the claim."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, f"{path!r} is a link that leads out of the claim")


@contextmanager
def opened_folder(root: Path, path: str, *, create: bool = False) -> Iterator[Path]:
    """A folder below `root`, valid inside the context; with `create`, missing folders are created
    and made durable.

    Raises OSError: FileNotFoundError, NotADirectoryError or LinkOutside.
    """
    handle = _open_folder(root, path, create=create)
    try:
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def _open_folder(root: Path, path: str, *, create: bool = False) -> int:
    handles = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    parts, links = list(reversed(PurePosixPath(path).parts)), 0
    try:
        while parts:
            part = parts.pop()
            if part == "..":  # from a link: paths themselves contain none
                if len(handles) == 1:
                    raise LinkOutside(path)
                os.close(handles.pop())
                continue
            target = _link_target(handles[-1], part)
            if target is None:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o777, dir_fd=handles[-1])
                        os.fsync(handles[-1])
                try:
                    handles.append(os.open(part, _FOLDER, dir_fd=handles[-1]))
                except OSError as error:
                    if error.errno == errno.ELOOP:  # it became a link a moment ago
                        raise LinkOutside(part) from error
                    raise
                continue
            links += 1
            if links > _MAX_LINKS or target.is_absolute():
                raise LinkOutside(path)
            parts.extend(reversed(target.parts))
        return os.dup(handles[-1])
    finally:
        for handle in handles:
            os.close(handle)


def open_file(path: Path) -> BinaryIO:
    """Open a file of an opened folder for reading. Raises OSError, also for a link, and for what is
    not a file, such as a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, f"{path.name!r} is not a file")
    return os.fdopen(handle, "rb")


def split_last(root: Path, path: str) -> tuple[str, str]:
    """The folder and the name of a file below `root`, after its links have been followed. Raises
    OSError."""
    folder, name = _parent_of(path), PurePosixPath(path).name
    for _ in range(_MAX_LINKS):
        handle = _open_folder(root, folder)
        try:
            target = _link_target(handle, name)
        finally:
            os.close(handle)
        if target is None:
            return folder, name
        if target.is_absolute():
            break
        joined = f"{folder}/{target}"
        folder, name = _parent_of(joined), target.name
        if name in ("", ".."):
            break
    raise LinkOutside(path)


def _parent_of(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _link_target(folder: int, name: str) -> PurePosixPath | None:
    """Where a link points to; None for anything else, also for a name that does not exist."""
    try:
        return PurePosixPath(os.readlink(name, dir_fd=folder))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
