"""The headers and the proxy that a config names for its model server.

A value that is in a Secret is read for each request, because it may be replaced while the run goes
on. Nothing that is read here becomes part of a message.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from inferrun.http_headers import model_header_fault
from inferrun.plugins import ContractError, Model
from inferrun_runner.network.model_credentials import FOLDER, ModelCredentials, line_of
from inferrun_runner.network.spans import TRACE_HEADERS

SECRETS: Final = "model-headers"
"""Below the folder of the endpoints: one file per header with a value in a Secret, named after its
place in the list."""

_FIELD: Final = "kserve.headers"
_PROXY: Final = "proxy-url"


class ModelHeaders:
    """The headers of each request."""

    def __init__(
        self, model: Model, endpoints: Path, *, has_secrets: bool = True, is_grpc: bool = False
    ) -> None:
        """Without `has_secrets` only those with a value. Raises ContractError with the header for
        what cannot be sent."""
        self._values: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        for index, header in enumerate(model.headers):
            if fault := model_header_fault(header.name, is_grpc=is_grpc):
                raise ContractError(f"{_FIELD}.{index}: {fault}")
            if header.value:
                self._values[header.name] = header.value
            elif has_secrets:
                self._files[header.name] = endpoints / SECRETS / str(index)
        self._takes_trace = "traceparent" not in self
        if any(not (one.isascii() and one.isprintable()) for one in self._values.values()):
            raise ContractError(f"{_FIELD}: values must be printable ASCII")
        self.current()

    def current(self) -> Mapping[str, str]:
        """Return the headers by name, with those of the trace. Raises ContractError."""
        trace = TRACE_HEADERS.get(None)
        values = {**trace, **self._values} if trace and self._takes_trace else self._values
        if not self._files:
            return values
        return values | {
            name: line_of(file, f"{_FIELD}: {name}") for name, file in self._files.items()
        }

    def __contains__(self, name: str) -> bool:
        return any(name == one.lower() for one in (*self._values, *self._files))


def check_one_authorization(headers: ModelHeaders, credentials: ModelCredentials) -> None:
    """Raise ContractError if both set the header Authorization."""
    if "authorization" in headers and credentials.authorization():
        text = "sets Authorization, and so do the credentials of kserve.credentialsRef; keep one of them"
        raise ContractError(f"{_FIELD}: {text}")


def proxy_of(model: Model, endpoints: Path) -> str:
    """Return the URL of the proxy, which may contain credentials; empty if there is none. Raises
    ContractError."""
    secret = endpoints / FOLDER / _PROXY
    field = f"kserve.credentialsRef: key {_PROXY}" if secret.exists() else "kserve.proxyUrl"
    url = line_of(secret, field) if secret.exists() else model.proxy_url
    try:
        is_valid = not url or (
            urlsplit(url).scheme == "http"
            and bool(urlsplit(url).hostname)
            and urlsplit(url).port != 0
        )
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ContractError(f"{field}: must be the http URL of a proxy")
    return url
