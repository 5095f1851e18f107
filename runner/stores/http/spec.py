"""The storage object of the label `http`: `http{url, credentialsRef{name}, format}`."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from inferrun.plugins.storage import MountedRef
from runner.stores.dataset import DatasetSpec


def check_url(url: str) -> str:
    """Return a URL that can be read. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("must be an http or https URL, such as https://files.example/rows.jsonl")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain user information; use credentialsRef")
    if not url.isascii() or any(char <= " " for char in url):
        raise ValueError("must not contain spaces, line breaks or other characters that a URL encodes with %")
    return url


class HttpSpec(DatasetSpec):
    """Location and format of the file."""

    url: str = ""
    credentials_ref: MountedRef | None = Field(default=None, alias="credentialsRef")

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return check_url(url) if url else url
