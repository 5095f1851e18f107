"""Publishes a finished file under its final name unless that name exists. All commits rely on this.

The content is durable before the name appears, and the name is durable before the call returns. So a visible name always stands
for complete content, regardless of which attempt wrote it and of crashes.
"""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def publish(finished: Path, final: Path) -> bool:
    """Rename `finished`, whose content is durable, to `final`. If that name exists, return False and leave it unchanged.

    `finished` is removed in either case. Raises OSError if the file system supports neither hard links nor no-replace renames.
    """
    won = publish_name(finished, final)
    finished.unlink(missing_ok=True)
    sync_folder(final.parent)
    return won


def publish_name(finished: Path, final: Path) -> bool:
    """Give `finished` the name `final`, atomically; False if that name exists. The name is not durable until the folder is synced.

    `finished` may still exist afterwards.
    """
    try:
        os.link(finished, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename(finished, final)
    return True


def check_volume(folder: Path) -> None:
    """Verify that names in a folder can be published exclusively. Raises OSError if the file system does not support it.

    Some FUSE and network file systems offer neither hard links nor no-replace renames, or replace the existing name.
    """
    drafts, final = (folder / "probe-1", folder / "probe-2"), folder / "probe"
    try:
        for draft in drafts:
            draft.write_text(draft.name)
        results = [publish_name(draft, final) for draft in drafts]
        if results != [True, False] or final.read_text() != drafts[0].name:
            raise OSError(errno.EOPNOTSUPP, "the file system replaces existing names")
    finally:
        for path in (*drafts, final):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename(finished: Path, final: Path) -> bool:
    """Call Linux's renameat2, which Python does not expose, for file systems without hard links."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, bytes(finished), _AT_FDCWD, bytes(final), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        return False
    raise OSError(code, f"the file system supports neither hard links nor no-replace renames ({os.strerror(code)})")
