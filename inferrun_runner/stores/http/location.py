"""Where the file is, and with what it is requested: the storage object together with the mounted
Secret."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from inferrun.plugins.storage import MountedSecret, authorization_of
from inferrun.stores.http import HttpStorage, check_url


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


def location_of(spec: HttpStorage, folder: Path) -> Location:
    """Combine the storage object with the Secret that is mounted at `folder`. Raises ValueError
    with the Secret and the key."""
    if spec.credentials_ref is None:
        return Location(spec.url, _headers(spec.url), _tls(spec.url, "", secret=""))
    secret = MountedSecret(folder, spec.credentials_ref.name)
    url = secret.value("url", is_ascii=True) or spec.url
    if not url:
        raise ValueError(f"Secret {secret.name!r} has no key url, and input.http.url is not set")
    try:
        check_url(url)
    except ValueError as error:
        raise ValueError(f"key url of Secret {secret.name!r} {error}") from error
    headers = _headers(url)
    token, username, password = (
        secret.value(key, is_ascii=True) for key in ("token", "username", "password")
    )
    if token and password:
        raise ValueError(f"Secret {secret.name!r} has both token and password; keep one of them")
    if authorization := authorization_of(token=token, username=username, password=password):
        headers["Authorization"] = authorization
    return Location(
        url, headers, _tls(url, secret.value("ca.crt", has_lines=True), secret=secret.name)
    )


def _headers(url: str) -> dict[str, str]:
    # Google Cloud Storage would decompress rows.jsonl.gz that is stored with Content-Encoding:
    # gzip, and ignore ranges.
    encoding = "gzip" if urlsplit(url).path.endswith(".gz") else "identity"
    return {"Accept": "*/*", "Accept-Encoding": encoding, "User-Agent": "inferrun"}


def _tls(url: str, authority: str, *, secret: str) -> ssl.SSLContext | None:
    if urlsplit(url).scheme != "https":
        return None
    context = ssl.create_default_context()
    try:
        if authority:
            context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"key ca.crt of Secret {secret!r} is not a PEM certificate") from error
    return context
