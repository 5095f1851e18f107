"""What the storage objects of all labels, and the Secrets that they name, have in common."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferrun.plugins.errors import ContractError, RunnerError

_CONFIDENTIAL = {"headers", "payload", "modelUrl", "endpoint"}
"""Members whose values may contain credentials; only their names are shown."""


class MountedRef(BaseModel):
    """The name of a Secret, which the control plane mounts from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class StorageSpec(BaseModel):
    """A storage object or a part of one. Unknown members are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Spec = TypeVar("Spec", bound=StorageSpec)


def read_spec(spec: Mapping[str, object], model: type[Spec], *, field: str) -> Spec:
    """Validate the storage object in a field such as `input.file`. Raises ContractError with the field."""
    try:
        return model.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{field}.{describe_invalid(error)}") from error


def describe_invalid(error: ValidationError) -> str:
    """Describe the first problem as `field: what is allowed, got value`."""
    wrong = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in wrong["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if wrong["type"] == "missing":
        return f"{field}: required{more}"
    is_shown = isinstance(wrong["input"], (str, int, float)) and not _CONFIDENTIAL & set(wrong["loc"])
    value = f", got {str(wrong['input'])[:120]!r}" if is_shown else ""
    return f"{field + ': ' if field else ''}{wrong['msg']}{value}{more}"


@dataclass(frozen=True, slots=True)
class MountedSecret:
    """A Secret that is mounted as one file per key. Its values are never part of a message or a log."""

    folder: Path
    name: str

    def value(self, *keys: str, is_ascii: bool = False, has_lines: bool = False) -> str:
        """Return the text of the first of the keys that exists; empty without one. Raises ValueError with Secret and key."""
        for key in keys:
            try:
                text = (self.folder / key).read_bytes().decode("ascii" if is_ascii else "utf-8").strip()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ValueError(f"cannot read key {key} of Secret {self.name!r}: {error.strerror}") from error
            except UnicodeDecodeError:
                text = None
            if text is None or not (has_lines or text.isprintable()):
                kind = (
                    "printable ASCII on one line" if is_ascii else "text" if has_lines else "printable text on one line"
                )
                raise ValueError(f"key {key} of Secret {self.name!r} must be {kind}")
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
