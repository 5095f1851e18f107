"""Where the file is, and with what it is requested: the storage object together with the mounted Secret."""

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from inferrun.plugins import InputError
from runner.stores.http.spec import HttpSpec, check_url

_KEYS: Final = ("url", "token", "username", "password", "ca.crt")


@dataclass(frozen=True, slots=True)
class Location:
    """A URL, which may be a credential itself, and the headers of a request."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)

    @property
    def name(self) -> str:
        """The last part of the path, which messages show."""
        parts = urlsplit(self.url)
        return unquote(parts.path.rsplit("/", 1)[-1]) or parts.hostname or ""

    @property
    def server(self) -> str:
        """The server, which messages show."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def location_of(spec: HttpSpec, folder: Path) -> Location:
    """Combine the storage object with the Secret that is mounted at `folder`. Raises InputError with the key."""
    secret = spec.credentials_ref.name if spec.credentials_ref else ""
    values = {key: _value(folder / key, secret=secret) if secret else "" for key in _KEYS}
    url = values["url"] or spec.url
    if not url:
        raise InputError(f"input.http.credentialsRef: Secret {secret!r} has no key url, and input.http.url is not set")
    try:
        check_url(url)
    except ValueError as error:
        raise InputError(f"input.http.credentialsRef: key url of Secret {secret!r} {error}") from error
    return Location(url, _headers(values, secret=secret), _tls(url, values["ca.crt"], secret=secret))


def _value(path: Path, *, secret: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"input.http.credentialsRef: cannot read key {path.name} of Secret {secret!r} as text"
        ) from error
    if path.name != "ca.crt" and not (text.isascii() and text.isprintable()):
        raise InputError(
            f"input.http.credentialsRef: key {path.name} of Secret {secret!r} must be printable ASCII on one line"
        )
    return text


def _headers(values: Mapping[str, str], *, secret: str) -> dict[str, str]:
    headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "inferrun"}
    if values["token"] and values["password"]:
        raise InputError(f"input.http.credentialsRef: Secret {secret!r} has both token and password; keep one of them")
    if values["token"]:
        headers["Authorization"] = f"Bearer {values['token']}"
    elif values["password"]:
        user = f"{values['username']}:{values['password']}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return headers


def _tls(url: str, authority: str, *, secret: str) -> ssl.SSLContext | None:
    if urlsplit(url).scheme != "https":
        return None
    context = ssl.create_default_context()
    try:
        if authority:
            context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"input.http.credentialsRef: key ca.crt of Secret {secret!r} is no PEM certificate") from error
    return context
