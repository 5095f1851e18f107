"""The storage object of the label `s3`: `bucket`, `path`, `endpoint`, `region`, `credentialsRef{name}`, `kmsKeyId`,
`requesterPays`, `format`.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from inferrun.plugins.storage import MountedRef, StorageSpec
from runner.stores.dataset import DatasetSpec
from runner.stores.run_folder.layout import ResultSpec

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


class S3Spec(StorageSpec):
    """Location and format of the objects."""

    bucket: str = Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")
    path: str = Field(min_length=1)
    endpoint: str = ""
    region: str = "us-east-1"
    credentials_ref: MountedRef | None = Field(default=None, alias="credentialsRef")
    kms_key_id: str = Field(default="", alias="kmsKeyId")
    requester_pays: bool = Field(default=False, alias="requesterPays")
    format: str = Field(default="jsonl", min_length=1)

    @field_validator("path")
    @classmethod
    def _is_key(cls, path: str) -> str:
        parts = path.removesuffix("/").split("/")
        if {"", "..", "."} & set(parts) or _CONTROL.search(path):
            raise ValueError('must be a key or a prefix without a leading "/", "//", ".." and control characters')
        return path

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        if endpoint and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/")):
            raise ValueError("must be an http or https URL without a path, such as http://minio.storage:9000")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("must not contain user information or a query; use credentialsRef")
        if parts.port == 0:
            raise ValueError("must not have port 0")
        return endpoint.rstrip("/")

    @property
    def url(self) -> str:
        """The URL of the server: `endpoint`, or Amazon's for this bucket."""
        return self.endpoint or f"https://{self.bucket}.s3.{self.region}.amazonaws.com"

    @property
    def location(self) -> str:
        """The location to show."""
        return f"s3://{self.bucket}/{self.path}"


class S3InputSpec(S3Spec, DatasetSpec):
    """What is read of a bucket."""


class S3OutputSpec(S3Spec, ResultSpec):
    """The label under `output`."""
