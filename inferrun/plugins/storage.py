"""What the storage objects of all labels, and the Secrets that they name, have in common.

A store is declared as a model (`Store`): its members with their defaults and forms (`Form`), marked
with INPUT or OUTPUT if they have a meaning at one end, and rules for several members
(`Store.problems`).
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.secrets import SecretRef
from inferrun.plugins.errors import ContractError, RunnerError
from inferrun.stores.dataset import ColumnTypes
from inferrun.stores.declaration import (
    INPUT,
    OUTPUT,
    End,
    Flag,
    Form,
    InvalidStorage,
    Spec,
    StorageSpec,
    Store,
    read_storage,
)
from inferrun.stores.s3 import ACCESS_KEYS, access_key

__all__ = [
    "ACCESS_KEYS",
    "INPUT",
    "OUTPUT",
    "ColumnTypes",
    "End",
    "Flag",
    "Form",
    "MountedSecret",
    "Problem",
    "SecretRef",
    "StorageSpec",
    "Store",
    "access_key",
    "authorization_of",
    "invalid",
    "naming_secret_field",
    "read_spec",
]


def read_spec(spec: Mapping[str, object], model: type[Spec], *, field: str) -> Spec:
    """Read the storage object in a field of the contract such as `input.file`. Raises ContractError
    with what is wrong."""
    end: End = "input" if field.split(".")[-2] == "input" else "output"
    try:
        return read_storage(spec, model, end=end, path=field)
    except InvalidStorage as error:
        raise ContractError(str(error)) from error


@dataclass(frozen=True, slots=True)
class MountedSecret:
    """A Secret that is mounted as one file per key. Its values are never part of a message or a
    log."""

    folder: Path
    name: str

    def value(self, *keys: str, is_ascii: bool = False, has_lines: bool = False) -> str:
        """Return the text of the first of the keys that exists; empty without one. Raises
        ValueError with Secret and key."""
        for key in keys:
            try:
                text = (
                    (self.folder / key)
                    .read_bytes()
                    .decode("ascii" if is_ascii else "utf-8")
                    .strip()
                )
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ValueError(
                    f"cannot read key {key} of Secret {self.name!r}: {error.strerror}"
                ) from error
            except UnicodeDecodeError:
                text = None
            if text is None or not (has_lines or text.isprintable()):
                kind = (
                    "printable ASCII on one line"
                    if is_ascii
                    else "text"
                    if has_lines
                    else "printable text on one line"
                )
                raise ValueError(f"key {key} of Secret {self.name!r} must be {kind}")
            return text
        return ""

    def values(
        self, keys: Iterable[str], *, is_ascii: bool = False, has_lines: bool = False
    ) -> dict[str, str]:
        """Return the texts of the keys that exist. Raises ValueError with Secret and key."""
        found = (key for key in keys if (self.folder / key).exists())
        return {key: self.value(key, is_ascii=is_ascii, has_lines=has_lines) for key in found}


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
    return (
        "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode() if password else ""
    )
