"""The storage object of the label `delta`: a table on a claim or in a bucket."""

from pathlib import PurePosixPath
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from inferrun.plugins.storage import MountedRef, StorageSpec

FOLDER = "_inferrun"
"""Below the table: what the runs write. Names with an underscore are not cleaned up by VACUUM."""


class DeltaSpec(StorageSpec):
    """Location of the table, and the types of its columns."""

    path: str = Field(min_length=1)
    claim_name: str = Field(default="", alias="claimName")
    bucket: str = ""
    endpoint: str = ""
    region: str = ""
    credentials_ref: MountedRef | None = Field(default=None, alias="credentialsRef")
    types: dict[str, str] = Field(default_factory=dict)
    flatten: bool = False

    @field_validator("path")
    @classmethod
    def _is_below(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
            raise ValueError('must be relative to the claim or bucket, without ".."')
        return path.rstrip("/")

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if bool(self.claim_name) == bool(self.bucket):
            raise ValueError("either claimName or bucket is required")
        if self.bucket and self.credentials_ref is None:
            raise ValueError("a bucket requires credentialsRef")
        if self.claim_name and (self.endpoint or self.region or self.credentials_ref):
            raise ValueError("endpoint, region and credentialsRef are those of a bucket")
        return self

    @property
    def label(self) -> str:
        """The label of the store that keeps the files."""
        return "s3" if self.bucket else "file"

    @property
    def files(self) -> dict[str, Any]:  # Any: a storage object
        """The storage object of the store that keeps the files: parts of Parquet in a folder of the table."""
        found = self.model_dump(by_alias=True, exclude_defaults=True)
        return {**found, "path": f"{self.path}/{FOLDER}", "format": "parquet"}
