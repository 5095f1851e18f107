"""KServe's objects: from the object to the address of its model, or to the reason why it has no
address yet. Pure.

`resolve` reads an `InferenceService` or an `LLMInferenceService` as its controller wrote it. What
it needs besides the object (a Service, a serving runtime) it asks for; whoever has an API server
reads it and asks again. Nothing here sends a request.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from inferrun.kserve.answer import (
    UNREADABLE,
    Answer,
    Answered,
    ModelAddress,
    Needs,
    Never,
    NotYet,
    Other,
    Others,
    Stored,
    Wanted,
)
from inferrun.kserve.inference_service import resolve_inference_service, revision_of
from inferrun.kserve.llm_inference_service import resolve_llm_inference_service
from inferrun.kserve.status import name_of, number, text

__all__ = [
    "GROUP",
    "KINDS",
    "UNREADABLE",
    "Answer",
    "Kind",
    "ModelAddress",
    "Needs",
    "Never",
    "NotYet",
    "Other",
    "Wanted",
    "identity_of",
    "resolve",
]

GROUP: Final = "serving.kserve.io"


@dataclass(frozen=True)
class Kind:
    """A kind; `versions` are those that can be read, preferred first."""

    name: str
    plural: str
    versions: tuple[str, ...]


INFERENCE_SERVICE: Final = Kind("InferenceService", "inferenceservices", ("v1beta1",))
LLM_INFERENCE_SERVICE: Final = Kind(
    "LLMInferenceService", "llminferenceservices", ("v1alpha2", "v1alpha1")
)

KINDS: Final = {kind.name: kind for kind in (INFERENCE_SERVICE, LLM_INFERENCE_SERVICE)}


def resolve(item: Stored, wanted: Wanted, others: Others | None = None, *, now: datetime) -> Answer:
    """Where the model of this object answers, or why it does not; `others` are the objects that
    were asked for, and `now` is the API server's time, which is compared with that of the last
    edit.
    """
    resolvers = {
        INFERENCE_SERVICE.name: resolve_inference_service,
        LLM_INFERENCE_SERVICE.name: resolve_llm_inference_service,
    }
    kind = text(item, "kind")
    if kind not in resolvers:
        return Never(f"kserve.serviceRef.kind {kind!r} is not supported")
    try:
        address = resolvers[kind](item, wanted, others or {}, now=now)
    except Answered as early:
        return early.answer
    limits = (
        ("an address", address.url, 4096),
        ("a model name", address.model_name, 2048),
        ("a protocol", address.protocol, 32),
    )
    for what, value, limit in limits:  # of a run's status
        if len(value) > limit or not value.isprintable():
            return Never(
                f"{name_of(item)} has {what} of {len(value)} characters; allowed are {limit}, all of which can be printed; fix "
                "it, then delete and recreate the run"
            )
    return address


def identity_of(item: Stored) -> tuple[int | None, str]:
    """The generation of an object and the revision that serves its model, empty if KServe reports
    none."""
    return number(item, "metadata", "generation"), revision_of(item)
