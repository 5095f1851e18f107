"""The storage object of the label `http`: `http{url, credentialsRef{name}, format}`."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from inferrun.plugins import ContractError
from runner.contract_file import describe


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


class CredentialsRef(BaseModel):
    """The Secret with credentials; the control plane mounts it from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class HttpSpec(BaseModel):
    """Location and format of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    url: str = ""
    credentials_ref: CredentialsRef | None = Field(default=None, alias="credentialsRef")
    format: str = Field(default="jsonl", min_length=1)

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return check_url(url) if url else url


def read_spec(spec: Mapping[str, object]) -> HttpSpec:
    """Validate the storage object. Raises ContractError with the field."""
    try:
        found = HttpSpec.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"input.http.{describe(error)}") from error
    if not found.url and found.credentials_ref is None:
        raise ContractError("input.http.url: required, unless the Secret of credentialsRef has a key url")
    return found
