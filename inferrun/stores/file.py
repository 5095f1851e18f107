"""The label `file`: files on a claim. Pure."""

from typing import Annotated, Final

from pydantic import Field

from inferrun.fields.scalars import ResourceName
from inferrun.stores.dataset import FolderStorage
from inferrun.stores.declaration import Form

_BELOW: Final = Form(
    allowed='must be a path below the root of the claim: relative, without ".."',
    never=r"^/|(^|/)[.][.](/|$)|\x00",
)


class FileStorage(FolderStorage):
    """Files on a PersistentVolumeClaim in the namespace of the run."""

    label = "file"
    is_in_schema = True

    claim_name: ResourceName
    """Name of the PersistentVolumeClaim in the namespace of the run. The input is mounted
    read-only. Input and output may use the same claim."""

    path: Annotated[str, Field(min_length=1, max_length=1024), _BELOW]
    """Path relative to the root of the claim, without "..". Input: a file of records; a directory,
    whose files with the format's extensions are read, also in nested directories such as
    dt=2026-11-23; or a pattern with *, ? and **. Output: the directory for results and manifest."""

    @property
    def root(self) -> str:
        """The claim."""
        return self.claim_name
