"""The label `http`: a file on a web server. Pure."""

from collections.abc import Iterator
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.secrets import SecretRef
from inferrun.stores.dataset import DatasetStorage
from inferrun.stores.declaration import End


def check_url(url: str) -> str:
    """Return a URL that can be read. Raises ValueError."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_valid = urlsplit(""), False
    if not is_valid:
        raise ValueError("must be an http or https URL, such as https://files.example/rows.jsonl")
    if "@" in parts.netloc:
        raise ValueError("must not contain user information; use credentialsRef")
    if not url.isascii() or any(char <= " " for char in url):
        raise ValueError(
            "must not contain spaces, line breaks or other characters that a URL encodes with %"
        )
    return url


class HttpStorage(DatasetStorage):
    """A file on a web server; for the input only."""

    label = "http"
    ends = ("input",)
    placeholders: ClassVar = {("url",): "url"}

    url: Annotated[str, Field(max_length=4096)] = ""
    """URL of the file. A URL that contains a credential, such as a signed one, belongs in the key
    url of the Secret of credentialsRef."""

    credentials_ref: SecretRef | None = None
    """Secret with the keys token, or username and password, and, if needed, ca.crt and url.
    Default: requests have no credentials."""

    format: Annotated[str, Field(min_length=1, max_length=32)] = "jsonl"
    """Format of the records: jsonl (one JSON value per line, the default), json (one array), csv,
    parquet, arrow, orc or openai."""

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return check_url(url) if url else url

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """No URL anywhere."""
        yield from super().problems(end=end, path=path)
        if end in self.ends and not self.url and self.credentials_ref is None:
            yield invalid(
                f"{path}.url",
                None,
                "it is required, unless the Secret of credentialsRef has a key url",
            )
