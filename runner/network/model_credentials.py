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
        """Return the value of the header Authorization; empty without credentials. Raises ContractError."""
        if self._token is None:
            return self._basic
        return f"Bearer {_line(self._token)}"


def _basic(folder: Path) -> str:
    user, password = folder / "username", folder / "password"
    if not password.exists():
        return ""
    if not user.exists():
        raise ContractError(f"{_FIELD}: the Secret has a key password, but no key username")
    return "Basic " + b64encode(f"{_line(user)}:{_line(password)}".encode()).decode()


def _line(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise ContractError(f"{_FIELD}: key {path.name} cannot be read: {error.strerror}") from error
    if not text or not text.isascii() or not text.isprintable():
        raise ContractError(f"{_FIELD}: key {path.name} must be printable ASCII on one line")
    return text
