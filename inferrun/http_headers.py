"""Checks the HTTP headers that a config adds to requests: valid tokens and values, and none that
frames the message. Pure.

The runner's HTTP client determines length, encoding and connection of each request. A configured
header that contradicts them would let a server read another request than the one that was sent.
"""

import re
from typing import Final

FRAMING: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Names in lower case: what frames a message, and the hop-by-hop headers (RFC 9110, sections 7.2,
7.6.1, 8.6 and 10.1.1)."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def split_header(header: str) -> tuple[str, str]:
    """Name and value of "Name: value", without the white space around them."""
    name, _, value = header.partition(":")
    return name.strip(" \t"), value.strip(" \t")


def header_fault(header: str) -> str:
    """What is wrong with "Name: value", empty if nothing is. The value is never part of the
    answer."""
    if ":" not in header:
        return 'must have the form "Name: value"'
    name, value = split_header(header)
    return name_fault(name) or value_fault(value)


def name_fault(name: str) -> str:
    """What is wrong with a header's name, empty if nothing is."""
    if not _TOKEN.fullmatch(name):
        return "the name must consist of letters, digits and the characters !#$%&'*+-.^_`|~"
    if name.lower() in FRAMING:
        return f"the header {name} is set by the HTTP client and cannot be configured; remove it"
    return ""


_OF_THE_PROTOCOL: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-type",
        "inference-header-content-length",
    }
)
"""Names in lower case of headers that describe what a protocol sends to a model server, and what it
expects."""

_METADATA_NAME: Final = re.compile(r"(?!grpc-)(?!.*-bin$)[0-9a-z_.-]+")
"""Names that gRPC sends as they are."""


def model_header_fault(name: str, *, is_grpc: bool) -> str:
    """What is wrong with the name of a header of requests to a model server, empty if nothing is.
    `Host` is allowed."""
    lower = name.lower()
    if lower != "host" and (fault := name_fault(name)):
        return fault
    if lower in _OF_THE_PROTOCOL:
        return f"the header {name} is set by the protocol and cannot be configured; remove it"
    if is_grpc and not _METADATA_NAME.fullmatch(lower):
        return "gRPC allows letters, digits and -._ in a name that neither begins with grpc- nor ends with -bin"
    return ""


def value_fault(value: str) -> str:
    """What is wrong with a header's value, empty if nothing is."""
    return (
        "the value must not contain control characters such as line breaks"
        if _CONTROL.search(value)
        else ""
    )


_DESCRIPTIVE: Final = frozenset(
    {
        *(
            "accept",
            "accept-charset",
            "accept-encoding",
            "accept-language",
            "cache-control",
            "content-disposition",
        ),
        *(
            "content-encoding",
            "content-language",
            "content-type",
            "if-match",
            "if-modified-since",
            "if-none-match",
        ),
        *(
            "host",
            "if-unmodified-since",
            "pragma",
            "prefer",
            "range",
            "user-agent",
            "x-request-id",
            "x-requested-with",
        ),
    }
)
"""Names in lower case of headers that only describe a message."""


def is_descriptive(name: str) -> bool:
    """Whether a header of this name never carries a credential. Names that nobody has heard of
    may."""
    return name.lower() in _DESCRIPTIVE


_CREDENTIALS: Final = re.compile(
    r"authorization|cookie|token|secret|password|api-?key", re.IGNORECASE
)


def is_credential(name: str) -> bool:
    """Whether a header of this name usually carries a credential."""
    return _CREDENTIALS.search(name) is not None
