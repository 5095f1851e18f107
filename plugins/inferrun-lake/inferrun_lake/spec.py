"""The storage objects of the labels `delta` and `iceberg`, and the keys of their Secret."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from inferrun.plugins import RunnerError, StoreContext
from inferrun.plugins.storage import (
    ACCESS_KEYS,
    INPUT,
    OUTPUT,
    ColumnTypes,
    End,
    Flag,
    Form,
    MountedSecret,
    Problem,
    SecretRef,
    StorageSpec,
    Store,
    access_key,
    invalid,
    naming_secret_field,
)

FOLDER: Final = "_inferrun"
"""Below a table: what the runs write. Readers and VACUUM ignore names with an underscore."""

_BELOW: Final = Form(
    allowed='must be relative to the claim or bucket, without ".."', never=r"^/|(^|/)[.][.]?(/|$)"
)


def _folder(path: str) -> str:
    if not path.isprintable():
        raise ValueError(_BELOW.allowed)
    return path.rstrip("/")


_NO_USER: Final = (
    "must not contain user information; put the URI into the key catalogUri of the Secret"
)


class BucketSpec(Store):
    """A server with the files of a table, and the Secret of its access key."""

    endpoint: str = ""
    region: str = "us-east-1"
    credentials_ref: SecretRef | None = None


class PathSpec(BucketSpec):
    """A folder in a bucket."""

    bucket: str = ""
    path: Annotated[str, Field(min_length=1), _BELOW, AfterValidator(_folder)]


class ResultFileSpec(StorageSpec):
    """What the object of an output says about the files of results."""

    types: Annotated[ColumnTypes, OUTPUT] = Field(default_factory=dict)
    flatten: Annotated[Flag, OUTPUT] = False
    # Any: the store of the files validates it
    layout: Annotated[dict[str, Any], OUTPUT] = Field(default_factory=dict)

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """Partitions, which a table has not."""
        yield from super().problems(end=end, path=path)
        if self.layout.get("partitions", "None") != "None":
            yield invalid(
                f"{path}.layout.partitions",
                self.layout["partitions"],
                "it is for the outputs file and s3; remove it",
            )

    def stored_in(self, path: PathSpec, **claim: str) -> dict[str, Any]:  # Any: a storage object
        """Return the object of the store that keeps the files: parts of Parquet in a folder of the
        table."""
        place = path.model_dump(
            by_alias=True, include={"bucket", "endpoint", "region", "credentials_ref"}
        )
        own = self.model_dump(by_alias=True, include={"types", "flatten", "layout"})
        return {**(claim or place), **own, "path": f"{path.path}/{FOLDER}", "format": "parquet"}


class DeltaSpec(PathSpec, ResultFileSpec):
    """A table on a claim or in a bucket, which is read, or appended to."""

    label = "delta"

    claim_name: str = ""
    version: Annotated[int | None, Field(ge=0), INPUT] = None
    allow_empty: Annotated[Flag, INPUT] = False

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """No place or two, or a place without what belongs to it."""
        yield from super().problems(end=end, path=path)
        if bool(self.claim_name) == bool(self.bucket):
            yield invalid(
                f"{path}.claimName",
                self.claim_name or None,
                "either claimName or bucket is required",
            )
        elif self.bucket and self.credentials_ref is None:
            yield invalid(f"{path}.credentialsRef", None, "it is required for a bucket")
        elif self.claim_name and (self.endpoint or self.credentials_ref):
            yield invalid(
                f"{path}.claimName",
                self.claim_name,
                "endpoint and credentialsRef are those of a bucket",
            )


class CatalogSpec(StorageSpec):
    """Where a table's current state is: a REST server, or a database."""

    name: str = Field(default="default", min_length=1)
    """A database may have several catalogs, each with a name."""

    uri: Annotated[str, Form(allowed=_NO_USER, never="@")] = ""
    warehouse: str = ""


class IcebergSpec(PathSpec, ResultFileSpec):
    """A table in a catalog, which is read, or appended to.

    The files of an output are in a folder of a bucket, where a table that does not exist is
    created.
    """

    label = "iceberg"

    path: Annotated[str, _BELOW, AfterValidator(_folder), OUTPUT] = ""
    bucket: Annotated[str, Field(min_length=3), OUTPUT] = ""
    credentials_ref: SecretRef
    catalog: CatalogSpec = CatalogSpec()
    table: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)+$")]
    snapshot: Annotated[int | None, Field(ge=0), INPUT] = None
    allow_empty: Annotated[Flag, INPUT] = False

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """An output without a folder."""
        yield from super().problems(end=end, path=path)
        for name in ("bucket", "path") if end == "output" else ():
            if not getattr(self, name):
                yield invalid(f"{path}.{name}", None, "it is required for an output")


@contextmanager
def mounted_key(
    spec: BucketSpec, context: StoreContext, *, side: str, error: type[RunnerError]
) -> Iterator[tuple[MountedSecret, tuple[str, str, str]]]:
    """Yield the Secret, and the access key, its secret and a session token; errors about it name
    the field.

    The SDK in pyarrow sends checksums after the content of uploads unless it is told otherwise,
    which rclone 1.76 answers with 411.
    """
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    secret = MountedSecret(
        context.endpoints_dir / side, spec.credentials_ref.name if spec.credentials_ref else ""
    )
    with naming_secret_field(f"{side}.{spec.label}.credentialsRef", error):
        key = access_key(secret.values(ACCESS_KEYS, is_ascii=True), whose=f"Secret {secret.name!r}")
        yield secret, (key["access_key_id"], key["secret_access_key"], key.get("session_token", ""))


async def check_address(
    url: str, context: StoreContext, field: str, error: type[RunnerError]
) -> None:
    """Raise `error` with the field for a server that runs must not reach."""
    try:
        await context.services.check_address(url)
    except OSError as refused:
        raise error(f"{field}: {refused}", is_retryable=False) from refused
