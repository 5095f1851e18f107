"""The storage objects of the labels `delta` and `iceberg`, and the keys of their Secret."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Final, Self

from pydantic import Field, field_validator, model_validator

from inferrun.plugins import RunnerError, StoreContext
from inferrun.plugins.storage import MountedRef, MountedSecret, StorageSpec, naming_secret_field

FOLDER: Final = "_inferrun"
"""Below a table: what the runs write. Readers and VACUUM ignore names with an underscore."""


class BucketSpec(StorageSpec):
    """A server with the files of a table, and the Secret of its access key."""

    endpoint: str = ""
    region: str = "us-east-1"
    credentials_ref: MountedRef | None = Field(default=None, alias="credentialsRef")


class PathSpec(BucketSpec):
    """A folder in a bucket."""

    bucket: str = ""
    path: str = Field(min_length=1)

    @field_validator("path")
    @classmethod
    def _is_below(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute() or {"..", "."} & set(path.split("/")) or not path.isprintable():
            raise ValueError('must be relative to the claim or bucket, without ".."')
        return path.rstrip("/")


class ResultFileSpec(StorageSpec):
    """What the object of an output says about the files of results."""

    types: dict[str, str] = Field(default_factory=dict)
    flatten: bool = False
    layout: dict[str, Any] = Field(default_factory=dict)  # Any: the store of the files validates it

    @field_validator("layout")
    @classmethod
    def _has_no_partitions(cls, layout: dict[str, Any]) -> dict[str, Any]:
        if layout.get("partitions", "None") != "None":
            raise ValueError("partitions is for the outputs file and s3; remove it")
        return layout

    def stored_in(self, path: PathSpec, **claim: str) -> dict[str, Any]:  # Any: a storage object
        """Return the object of the store that keeps the files: parts of Parquet in a folder of the table."""
        place = path.model_dump(by_alias=True, include={"bucket", "endpoint", "region", "credentials_ref"})
        own = self.model_dump(by_alias=True, include={"types", "flatten", "layout"})
        return {**(claim or place), **own, "path": f"{path.path}/{FOLDER}", "format": "parquet"}


class DeltaSpec(PathSpec):
    """A table on a claim or in a bucket."""

    claim_name: str = Field(default="", alias="claimName")

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if bool(self.claim_name) == bool(self.bucket):
            raise ValueError("either claimName or bucket is required")
        if self.bucket and self.credentials_ref is None:
            raise ValueError("a bucket requires credentialsRef")
        if self.claim_name and (self.endpoint or self.credentials_ref):
            raise ValueError("endpoint and credentialsRef are those of a bucket")
        return self


class DeltaInputSpec(DeltaSpec):
    """What is read."""

    version: int | None = Field(default=None, ge=0)
    allow_empty: bool = Field(default=False, alias="allowEmpty")


class DeltaOutputSpec(DeltaSpec, ResultFileSpec):
    """What is appended to."""


class CatalogSpec(StorageSpec):
    """Where a table's current state is: a REST server, or a database."""

    name: str = Field(default="default", min_length=1)
    """A database may have several catalogs, each with a name."""

    uri: str = ""
    warehouse: str = ""

    @field_validator("uri")
    @classmethod
    def _has_no_password(cls, uri: str) -> str:
        if "@" in uri:
            raise ValueError("must not contain user information; put the URI into the key catalogUri of the Secret")
        return uri


class IcebergSpec(BucketSpec):
    """A table in a catalog."""

    credentials_ref: MountedRef = Field(alias="credentialsRef")
    catalog: CatalogSpec = CatalogSpec()
    table: str = Field(pattern=r"^[^.]+(\.[^.]+)+$")


class IcebergInputSpec(IcebergSpec):
    """What is read."""

    snapshot: int | None = Field(default=None, ge=0)
    allow_empty: bool = Field(default=False, alias="allowEmpty")


class IcebergOutputSpec(IcebergSpec, PathSpec, ResultFileSpec):
    """What is appended to. The files are in a folder of a bucket, where a table that does not exist is created."""

    bucket: str = Field(min_length=3)


@contextmanager
def access_key(
    spec: BucketSpec, context: StoreContext, *, side: str, label: str, error: type[RunnerError]
) -> Iterator[tuple[MountedSecret, tuple[str, str, str]]]:
    """Yield the Secret, and the access key, its secret and a session token; errors about it name the field.

    The SDK in pyarrow sends checksums after the content of uploads unless it is told otherwise, which rclone 1.76 answers with 411.
    """
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    secret = MountedSecret(context.endpoints_dir / side, spec.credentials_ref.name if spec.credentials_ref else "")
    with naming_secret_field(f"{side}.{label}.credentialsRef", error):
        keys = (
            secret.value("accessKeyId", "AWS_ACCESS_KEY_ID", is_ascii=True),
            secret.value("secretAccessKey", "AWS_SECRET_ACCESS_KEY", is_ascii=True),
            secret.value("sessionToken", "AWS_SESSION_TOKEN", is_ascii=True),
        )
        if not (keys[0] and keys[1]):
            raise ValueError(f"Secret {secret.name!r} has no key accessKeyId or no key secretAccessKey")
        yield secret, keys


async def check_address(url: str, context: StoreContext, field: str, error: type[RunnerError]) -> None:
    """Raise `error` with the field for a server that runs must not reach."""
    try:
        await context.services.check_address(url)
    except OSError as refused:
        raise error(f"{field}: {refused}", is_retryable=False) from refused
