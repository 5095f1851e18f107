"""The question about a model and its possible answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

Stored: TypeAlias = Mapping[str, Any]  # Any: an object as the API server returns it


class Unreadable(Enum):
    """Stands for an object that exists or not: this installation may not read it, or it is too
    large."""

    UNREADABLE = "unreadable"


UNREADABLE: Final = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the InferenceConfig sets itself, which takes precedence over what the object says; empty
    if it does not."""

    model_name: str = ""
    protocol: str = ""
    is_our_runner: bool = True


@dataclass(frozen=True, slots=True)
class Other:
    """Another object that is needed: the plural of its resource, its namespace (empty for a
    cluster-wide one), its name."""

    plural: str
    namespace: str
    name: str


Others: TypeAlias = Mapping[Other, "Stored | Unreadable | None"]
"""The objects that were read; None for one that does not exist."""


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where the model answers, and what the object says about it. `ca_certificates` is PEM,
    `ca_secret` a Secret in the object's namespace whose key `ca.crt` or `tls.crt` has the CA; both
    empty if the address does not need them.
    """

    url: str
    model_name: str
    protocol: str
    generation: int = 0
    revision: str = ""
    concurrency: int = 0
    """How many requests the replicas accept at a time; 0: unknown."""

    request_seconds: int = 0
    """The time limit of a request at the server; 0: unknown."""

    ca_certificates: str = ""
    ca_secret: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotYet:
    """The model does not answer yet; a change of the object is reason to ask again, and so is the
    time `until`.

    With `is_other`, it waits for another object, which can change without a change of this one.
    """

    message: str
    until: datetime | None = None
    is_other: bool = False


@dataclass(frozen=True, slots=True)
class Never:
    """Waiting does not help: a user must change the object or the config."""

    message: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The answer needs this object, too."""

    other: Other


Answer: TypeAlias = ModelAddress | NotYet | Never | Needs


class Answered(Exception):
    """Ends a resolution with an answer that is not an address; `resolve` returns the answer."""

    def __init__(self, answer: NotYet | Never | Needs) -> None:
        super().__init__(answer)
        self.answer = answer


def needed(others: Others, other: Other) -> Stored | Unreadable | None:
    """Another object, None if it does not exist. Raises Answered if it has to be read first."""
    if other not in others:
        raise Answered(Needs(other))
    return others[other]
