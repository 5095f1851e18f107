"""Gives a finished file its final name, unless that name is taken: the one primitive that every commit rests on.

The content is durable before the name appears and the name is durable before the call returns, so a name that can be seen
stands for whole content, whoever made it and whenever the power went.
"""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def publish(finished: Path, final: Path) -> bool:
    """Name `finished`, which is on disk already, `final`; False if that name was taken, which changes nothing.

    `finished` is gone afterwards. Raises OSError where the file system can do neither of the two atomic ways.
    """
    won = _link(finished, final)
    finished.unlink(missing_ok=True)
    sync_folder(final.parent)
    return won


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(finished: Path, final: Path) -> bool:
    try:
        os.link(finished, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename(finished, final)
    return True


def _rename(finished: Path, final: Path) -> bool:
    """Linux's renameat2 for file systems without hard links; Python has no name for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, bytes(finished), _AT_FDCWD, bytes(final), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        return False
    raise OSError(code, f"the file system can neither link nor rename without replacing ({os.strerror(code)})")
