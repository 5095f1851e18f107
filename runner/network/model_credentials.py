"""The mounted credentials for a model server: the keys of the Secret that `kserve.credentialsRef` names, one file per key.

A token is read for each request, because those of service accounts expire within an hour. Nothing that is read here becomes part
of a message.
"""

from base64 import b64encode
from pathlib import Path
from typing import Final

from inferrun.plugins import ContractError

FOLDER: Final = "model"
"""Below the folder of the endpoints."""

_TOKEN: Final = "token"
_FIELD: Final = "kserve.credentialsRef"


class ModelCredentials:
    """What the requests to a model server contain."""

    def __init__(self, folder: Path) -> None:
        """Raises ContractError with the key for what cannot be used."""
        token = folder / _TOKEN
        self._token = token if token.exists() else None
        self._basic = _basic(folder)
        if self._token is not None and self._basic:
            raise ContractError(f"{_FIELD}: the Secret has both {_TOKEN} and password; keep one of them")
        self.authorization()

    def authorization(self) -> str:
        """Return the value of the header Authorization; empty if there is none. Raises ContractError."""
        if self._token is None:
            return self._basic
        return f"Bearer {line_of(self._token, _key(self._token))}"


def _basic(folder: Path) -> str:
    user, password = folder / "username", folder / "password"
    if not password.exists():
        return ""
    if not user.exists():
        raise ContractError(f"{_FIELD}: the Secret has a key password, but no key username")
    pair = f"{line_of(user, _key(user))}:{line_of(password, _key(password))}"
    return "Basic " + b64encode(pair.encode()).decode()


def _key(path: Path) -> str:
    return f"{_FIELD}: key {path.name}"


def line_of(path: Path, field: str) -> str:
    """Return the text of a file of a mounted Secret without white space around it. Raises ContractError with the field."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise ContractError(f"{field} cannot be read: {error.strerror}") from error
    if not text or not text.isascii() or not text.isprintable():
        raise ContractError(f"{field} must be printable ASCII on one line")
    return text
