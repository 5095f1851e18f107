"""Scalar types of both resources, with the limits that the API server enforces.

Every string needs a limit, because the API server rejects a CRD whose rules could run over
unbounded strings. Messages that the product writes are truncated instead of rejected, so that a
long message never prevents an outcome from being stored.
"""

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AwareDatetime, BeforeValidator, Field, PlainSerializer

from inferrun.names import LABEL_LIMIT, LABEL_PATTERN, SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN
from inferrun.text import one_line
from inferrun.timestamps import rfc3339

MESSAGE_LIMIT: Final = 2048
SHORT_LIMIT: Final = 256


def _truncate_to(limit: int) -> Callable[[object], object]:
    return lambda value: one_line(value, limit=limit) if isinstance(value, str) else value


Instant = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""A point in time; in JSON as Kubernetes writes it, with whole seconds."""

Message = Annotated[
    str, BeforeValidator(_truncate_to(MESSAGE_LIMIT)), Field(max_length=MESSAGE_LIMIT)
]
"""One line of human-readable text, truncated to 2048 characters."""

ReasonText = Annotated[str, Field(max_length=SHORT_LIMIT)]
"""A word in CamelCase for programs."""

ResourceName = Annotated[
    str, Field(min_length=1, max_length=SUBDOMAIN_LIMIT, pattern=SUBDOMAIN_PATTERN)
]
"""The name of a namespaced object: a DNS-1123 subdomain."""

NamespaceName = Annotated[str, Field(min_length=1, max_length=LABEL_LIMIT, pattern=LABEL_PATTERN)]
"""The name of a namespace: a DNS-1123 label."""

Uid = Annotated[str, Field(max_length=SHORT_LIMIT)]

TEN_YEARS_SECONDS: Final = 315_360_000

Seconds = Annotated[int, Field(ge=0, le=TEN_YEARS_SECONDS)]
"""A duration in whole seconds, at most ten years (a Pod's deadline must fit in 32 bits)."""
