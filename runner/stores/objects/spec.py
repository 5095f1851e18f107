"""The storage objects of buckets and containers: what all have in common."""

import re
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedRef, StorageSpec
from runner.stores.objects.cloud import Cloud

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


class ObjectSpec(StorageSpec):
    """Location and format of the objects."""

    label: ClassVar[str]
    place: ClassVar[str] = "bucket"
    """The member that names what contains the objects."""

    path: str = Field(min_length=1)
    endpoint: str = ""
    credentials_ref: MountedRef | None = Field(default=None, alias="credentialsRef")
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
        if endpoint and (parts.scheme not in {"http", "https"} or not parts.hostname or not cls._may_have(parts.path)):
            raise ValueError("must be an http or https URL without a path, such as http://minio.storage:9000")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("must not contain user information or a query; use credentialsRef")
        if parts.port == 0:
            raise ValueError("must not have port 0")
        return endpoint.rstrip("/")

    @classmethod
    def _may_have(cls, path: str) -> bool:
        return not path.strip("/")

    @property
    def url(self) -> str:
        """The URL of the server."""
        raise NotImplementedError

    @property
    def root(self) -> str:
        """What to show before the keys of objects."""
        raise NotImplementedError

    def cloud(self, folder: Path, *, field: str, error: type[RunnerError]) -> Cloud:
        """How to reach it with the credentials in a folder, or those of the Pod's service account. Raises `error` for a Secret."""
        raise NotImplementedError
