"""The URL of a model from the address in a status. Pure."""

import re
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from inferrun.kserve.answer import Stored, Unreadable
from inferrun.kserve.status import items, member, number, text

_INTERNAL: Final = (".local", ".localhost", ".internal", ".svc")
_PRIVATE: Final = re.compile(
    r"(10\.|192\.168\.|172\.(1[6-9]|2[0-9]|3[01])\.|f[cd][0-9a-f]{2}:)", re.IGNORECASE
)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_GRPC_SCHEMES: Final = {"http": "grpc", "https": "grpcs"}

GRPC: Final = "grpc-v2"


def parts_of(url: str, *, protocol: str = "") -> SplitResult | None:
    """The parts of an http or https URL; None for anything else. For gRPC, `grpc` and `grpcs` are
    the same as these."""
    try:
        parts = urlsplit(url)
        if protocol == GRPC and parts.scheme in _GRPC_SCHEMES.values():
            parts = parts._replace(scheme="https" if parts.scheme == "grpcs" else "http")
        return (
            parts if parts.scheme in _DEFAULT_PORTS and parts.hostname and parts.port != 0 else None
        )
    except ValueError:
        return None


def base_of(parts: SplitResult) -> str:
    """The server's base URL: no query, no slash at the end; the port is kept."""
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def model_url(base: str, *, protocol: str, model: str, is_prefixed: bool = False) -> str:
    """The URL that a runner of this protocol gets. `is_prefixed`: the server has OpenAI's API below
    `/openai`."""
    name = quote(model, safe="")
    if protocol == GRPC:
        parts = urlsplit(base)  # gRPC has no paths
        host = parts.netloc if parts.port else f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}"
        return f"{_GRPC_SCHEMES[parts.scheme]}://{host}"
    if protocol == "openai":
        return f"{base}/openai/v1" if is_prefixed else f"{base}/v1"
    return (
        f"{base}/v1/models/{name}:predict" if protocol == "v1" else f"{base}/v2/models/{name}/infer"
    )


def is_internal(parts: SplitResult) -> bool:
    """Whether the host is reached within the cluster or its network."""
    host = (parts.hostname or "").lower()
    return host == "localhost" or host.endswith(_INTERNAL) or _PRIVATE.match(host) is not None


def service_name(parts: SplitResult, *, namespace: str) -> str:
    """The Service in that namespace that the host names; empty if it does not name one."""
    labels = (parts.hostname or "").split(".")
    is_service = (
        len(labels) >= 2 and labels[1] == namespace and (len(labels) == 2 or labels[2] == "svc")
    )
    return labels[0] if is_service else ""


def with_port(
    parts: SplitResult, service: Stored | Unreadable | None, *, protocol: str = ""
) -> SplitResult:
    """The address with the port of its Service for that protocol, unless its own is one of these.

    A Service without an address of its own cannot map ports: its clients need the port of the
    container, for which KServe writes 8080 into the address whatever the container listens on. A
    Service that maps ports, or does not say to which, keeps the port of the address, except for
    gRPC, which KServe's addresses do not know.
    """
    if service is None or isinstance(service, Unreadable):
        return parts

    def is_grpc(port: Stored) -> bool:
        name, spoken = text(port, "name").lower(), text(port, "appProtocol").lower()
        is_other = member(port, "protocol") not in (None, "TCP")
        return (
            is_other
            or "grpc" in name
            or name.startswith("h2c")
            or "grpc" in spoken
            or spoken.endswith("h2c")
        )

    given = [one for one in items(service, "spec", "ports") if isinstance(one, dict)]
    ports = [one for one in given if is_grpc(one) == (protocol == GRPC)]
    if not ports and protocol == GRPC:
        ports = given  # a server with one protocol may not say in the name of its port which one
    targets = [
        number(one, "targetPort") if text(service, "spec", "clusterIP") == "None" else None
        for one in ports
    ]
    numbers = [
        found
        for port, target in zip(ports, targets, strict=True)
        if (found := target or number(port, "port"))
    ]
    if not numbers or (parts.port or _DEFAULT_PORTS[parts.scheme]) in numbers:
        return parts
    if parts.port is not None and targets[0] is None and protocol != GRPC:
        return parts
    return parts._replace(netloc=f"{parts.hostname}:{numbers[0]}")
