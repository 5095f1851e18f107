"""What the disk of a claim or of the Pod refuses, in words: the system has one text for a full disk
and for one without inodes."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NO_INODES: Final = "the file system has space, but no inode for another file"


def refusal(error: OSError, folder: Path) -> str:
    """Return what happened to a file below `folder`."""
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            found = os.statvfs(folder)
            if found.f_files and not found.f_favail and found.f_bavail:  # btrfs counts no inodes
                return NO_INODES
    return error.strerror or str(error)
