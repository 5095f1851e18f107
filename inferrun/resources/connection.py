"""How requests reach the model server: `kserve.headers` and `kserve.proxyUrl`.

A value that a Secret holds is mounted in the run's Pod and read by nobody else: it is in no
contract, status or message.
"""

from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field

from inferrun.fields.problems import HIDDEN, Problem, invalid
from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.secrets import SecretKeyReference
from inferrun.http_headers import is_credential, model_header_fault
from inferrun.text import public_url

MAX_HEADERS: Final = 16


class HeaderValueSource(ResourceModel):
    """Where the value of a header is."""

    secret_key_ref: SecretKeyReference
    """Key of a Secret in the namespace of the run."""


class ModelHeader(ResourceModel):
    """A header of each request to the model server, with a value or the key of a Secret that holds
    it."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of the header, such as api-key."""

    value: Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[ -~]+$")] | None = None
    """Its value. Everyone who may read configs can see it: use valueFrom for credentials."""

    value_from: HeaderValueSource | None = None
    """Its value in a Secret, instead of value. It is read again for each request."""


def connection_problems(
    headers: tuple[ModelHeader, ...], proxy_url: str | None, *, is_grpc: bool, has_token: bool
) -> Iterator[Problem]:
    """The problems of `kserve.headers` and `kserve.proxyUrl`. Values of headers are not part of
    them."""
    names = [header.name.lower() for header in headers]
    for index, header in enumerate(headers):
        field, name = f"spec.kserve.headers.{index}", header.name.lower()
        if fault := model_header_fault(name, is_grpc=is_grpc):
            yield invalid(f"{field}.name", header.name, fault)
        elif name in names[:index]:
            yield invalid(
                f"{field}.name", header.name, "the header is set twice; remove one of them"
            )
        elif name == "authorization" and has_token:
            yield invalid(
                f"{field}.name",
                header.name,
                "but tokenAudience is set, whose token has the same header",
            )
        if (header.value is None) == (header.value_from is None):
            yield Problem(field=field, value=HIDDEN, allowed="must have one of value and valueFrom")
        elif header.value is not None and is_credential(name):
            text = "the value can be seen by everyone who may read this config; use valueFrom with a Secret"
            yield Problem(field=f"{field}.value", value=HIDDEN, allowed=text)
    if proxy_url and is_grpc:
        yield invalid(
            "spec.kserve.proxyUrl",
            public_url(proxy_url),
            "the protocol grpc-v2 uses no proxy; remove it",
        )
    elif proxy_url and (fault := proxy_fault(proxy_url)):
        yield invalid("spec.kserve.proxyUrl", public_url(proxy_url), fault)


def proxy_fault(url: str) -> str:
    """What is wrong with the URL of a proxy in a config, empty if nothing is."""
    try:
        parts = urlsplit(url)
        is_valid = (
            parts.scheme == "http"
            and bool(parts.hostname)
            and parts.port != 0
            and not parts.path.strip("/")
        )
    except ValueError:
        return "must be the http URL of a proxy, such as http://proxy.egress:3128"
    if is_valid and "@" in parts.netloc:
        return "must not contain credentials; put the URL into the key proxy-url of the Secret of credentialsRef"
    return "" if is_valid else "must be the http URL of a proxy, such as http://proxy.egress:3128"
