"""One request and its whole response: what the protocols of model servers send, and the HTTP clients
do.

    ExchangeFailed           there is no complete response; `was_sent`: the request may have been sent
    ├── Refused              runs must not connect to the address
    └── ResponseTooLarge     the body has more bytes than allowed
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from inferrun.plugins import FaultKind
from inferrun.plugins.http import ExchangeFailed

HEADER_BYTES: Final = 64 * 1024
"""Maximum bytes of a header. Servers accept headers of 8 to 64 KiB."""

JOINED_BYTES: Final = 256 * 1024
"""Maximum bytes of a body in parts that are joined."""

Body: TypeAlias = bytes | Sequence[memoryview]
"""The body of a request: one text, or parts that are sent one after the other. Large ones are never
joined."""


class Refused(ExchangeFailed):
    """Runs must not connect to the address."""

    def __init__(self, text: str) -> None:
        super().__init__(text, kind=FaultKind.FAILED, was_sent=False)


class ResponseTooLarge(ExchangeFailed):
    """The body of the response has more bytes than allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it returned more than {limit} bytes", kind=FaultKind.TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Response:
    """A response that was received completely."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def joined(body: Body | None) -> Body | None:
    """Return a body without parts, unless it is large."""
    if isinstance(body, bytes) or body is None:
        return body
    return b"".join(body) if sum(part.nbytes for part in body) <= JOINED_BYTES else body
