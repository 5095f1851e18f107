"""The storage object of the label `s3`: `bucket`, `path`, `endpoint`, `region`, `credentialsRef{name}`, `format`."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from inferrun.plugins import ContractError
from runner.contract_file import describe

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


class CredentialsRef(BaseModel):
    """The Secret with the access key; the control plane mounts it from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class S3Spec(BaseModel):
    """Location and format of the objects."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    bucket: str = Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")
    path: str = Field(min_length=1)
    endpoint: str = ""
    region: str = "us-east-1"
    credentials_ref: CredentialsRef | None = Field(default=None, alias="credentialsRef")
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


def read_spec(spec: Mapping[str, object], *, side: str) -> S3Spec:
    """Validate the storage object. Raises ContractError with the field."""
    try:
        return S3Spec.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{side}.s3.{describe(error)}") from error
