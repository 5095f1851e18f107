"""The mounted credentials for a model server: the keys of the Secret that `kserve.credentialsRef`
names, one file per key.

They are read for each request, because tokens of service accounts expire within an hour. Nothing
that is read here becomes part of a message.
"""

from pathlib import Path
from typing import Final

from inferrun.plugins import ContractError
from inferrun.plugins.storage import authorization_of

FOLDER: Final = "model"
"""Below the folder of the endpoints."""

_FIELD: Final = "kserve.credentialsRef"


class ModelCredentials:
    """What the requests to a model server contain."""

    def __init__(self, folder: Path) -> None:
        """Raises ContractError with the key for what cannot be used."""
        self._folder = folder
        has_token, has_user, has_password = (
            (folder / key).exists() for key in ("token", "username", "password")
        )
        if has_token and has_password:
            raise ContractError(
                f"{_FIELD}: the Secret has both token and password; keep one of them"
            )
        if has_password and not has_user:
            raise ContractError(f"{_FIELD}: the Secret has a key password, but no key username")
        self._keys = ("token",) if has_token else ("username", "password") if has_password else ()
        self.authorization()

    def authorization(self) -> str:
        """Return the value of the header Authorization; empty without credentials. Raises
        ContractError."""
        found = {key: line_of(self._folder / key, f"{_FIELD}: key {key}") for key in self._keys}
        return authorization_of(**{"token": "", "username": "", "password": "", **found})


def line_of(path: Path, field: str) -> str:
    """Return the text of a file of a mounted Secret without white space around it. Raises
    ContractError with the field."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise ContractError(f"{field} cannot be read: {error.strerror}") from error
    if not text or not text.isascii() or not text.isprintable():
        raise ContractError(f"{field} must be printable ASCII on one line")
    return text
