"""The endpoint Secret, mounted as one file per key, with the address and credentials of a data
handler.

Certificates are base64-encoded inside the Secret's values, as Krateo writes them; plain PEM is
accepted too. Nothing read here is ever included in a message or a log.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from inferrun.plugins.storage import MountedSecret, authorization_of

_TRUE = frozenset({"1", "t", "true"})
_CERTIFICATE_KEYS = ("certificate-authority-data", "client-certificate-data", "client-key-data")
_UNSUPPORTED = ("aws-access-key", "aws-secret-key")
_KEYS = (
    "server-url",
    "token",
    "username",
    "password",
    "proxy-url",
    "insecure",
    *_CERTIFICATE_KEYS,
    *_UNSUPPORTED,
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and credentials."""

    server_url: str
    tls: ssl.SSLContext = field(repr=False)
    authorization: str = field(repr=False)
    """The value of the header; empty without credentials."""

    proxy_url: str = field(repr=False)
    """Empty without a proxy."""

    def url(self, path: str) -> str:
        """Return the URL of a path on the server, joined by one slash."""
        base = self.server_url.rstrip("/")
        return f"{base}/{path.removeprefix('/')}" if path else base


def read_endpoint(folder: Path, *, secret: str, has_authorization: bool = False) -> Endpoint:
    """Read an endpoint from a mounted Secret; `has_authorization`: the config itself sets the
    header Authorization.

    Raises ValueError with the Secret and the key.
    """
    mounted = MountedSecret(folder, secret)
    values = {key: mounted.value(key, has_lines=True) for key in _KEYS}
    _check(values, secret)
    if has_authorization and _has_user_information(values["server-url"]):
        raise ValueError(
            f"Secret {secret!r} has user information in server-url, and headers or headersFrom set Authorization; "
            "keep only one of them"
        )
    return Endpoint(
        server_url=values["server-url"],
        tls=_tls(values, secret),
        authorization=authorization_of(
            token=values["token"], username=values["username"], password=values["password"]
        ),
        proxy_url=values["proxy-url"],
    )


def _check(values: Mapping[str, str], secret: str) -> None:
    if not values["server-url"]:
        raise ValueError(
            f"Secret {secret!r} has no key server-url; set it to the data handler's address"
        )
    if not _is_address(values["server-url"]):
        raise ValueError(f"key server-url of Secret {secret!r} must be an http or https URL")
    if values["token"] and values["password"]:
        raise ValueError(f"Secret {secret!r} has both token and password; keep only one of them")
    if _has_user_information(values["server-url"]) and (values["token"] or values["password"]):
        raise ValueError(
            f"Secret {secret!r} has user information in server-url besides token or password; keep only one of them"
        )
    if values["proxy-url"] and urlsplit(values["proxy-url"]).scheme != "http":
        raise ValueError(f"key proxy-url of Secret {secret!r} must start with http://")
    if bool(values["client-certificate-data"]) != bool(values["client-key-data"]):
        raise ValueError(
            f"Secret {secret!r} has only one of client-certificate-data and client-key-data; both are required"
        )
    if unsupported := [key for key in _UNSUPPORTED if values[key]]:
        raise ValueError(
            f"Secret {secret!r} has key {unsupported[0]}, but AWS signatures are not supported; remove it"
        )


def _has_user_information(url: str) -> bool:
    return "@" in urlsplit(url).netloc


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _tls(values: Mapping[str, str], secret: str) -> ssl.SSLContext:
    authority, certificate, key = (_pem(values, key, secret) for key in _CERTIFICATE_KEYS)
    try:
        context = ssl.create_default_context(cadata=authority or None)
        if certificate:
            # Load the certificate from a temporary file, readable by this user only, because
            # OpenSSL accepts nothing else.
            handle, name = tempfile.mkstemp()
            try:
                with os.fdopen(handle, "w", encoding="ascii") as pem:
                    pem.write(f"{certificate.strip()}\n{key.strip()}\n")
                context.load_cert_chain(name)
            finally:
                Path(name).unlink()
    except ssl.SSLError as error:
        raise ValueError(
            f"the certificates in Secret {secret!r} cannot be used: {error.reason or error}"
        ) from error
    if values["insecure"].lower() in _TRUE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _pem(values: Mapping[str, str], key: str, secret: str) -> str:
    text = values[key]
    if not text or text.startswith("-----BEGIN"):
        return text
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"key {key} of Secret {secret!r} is neither PEM nor base64 of PEM"
        ) from error
