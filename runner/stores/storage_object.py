"""What the storage objects of all labels, and the Secrets that they name, have in common."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferrun.plugins import ContractError, RunnerError
from runner.contract_file import describe


class CredentialsRef(BaseModel):
    """The Secret with credentials; the control plane mounts it from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class StorageSpec(BaseModel):
    """A storage object. Unknown members are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Spec = TypeVar("Spec", bound=StorageSpec)


def read_spec(spec: Mapping[str, object], model: type[Spec], *, field: str) -> Spec:
    """Validate the storage object in a field such as `input.file`. Raises ContractError with the field."""
    try:
        return model.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{field}.{describe(error)}") from error


@dataclass(frozen=True, slots=True)
class MountedSecret:
    """A Secret that is mounted as one file per key. Its values are never part of a message or a log."""

    folder: Path
    name: str

    def value(self, *keys: str, is_ascii: bool = False, has_lines: bool = False) -> str:
        """Return the text of the first of the keys that exists; empty without one. Raises ValueError with Secret and key."""
        for key in keys:
            try:
                text = (self.folder / key).read_text(encoding="utf-8", errors="replace" if is_ascii else None).strip()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"cannot read key {key} of Secret {self.name!r} as text") from error
            if not (has_lines or text.isprintable()) or (is_ascii and not text.isascii()):
                kind = "printable ASCII" if is_ascii else "printable"
                raise ValueError(f"key {key} of Secret {self.name!r} must be {kind} on one line")
            return text
        return ""


@contextmanager
def naming_secret_field(field: str, error: type[RunnerError]) -> Iterator[None]:
    """Raise `error` with the field that names a Secret for a ValueError about the Secret."""
    try:
        yield
    except ValueError as invalid:
        raise error(f"{field}: {invalid}") from invalid


def authorization_of(*, token: str, username: str, password: str) -> str:
    """Return the value of the header Authorization; empty without credentials."""
    if token:
        return f"Bearer {token}"
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode() if password else ""
