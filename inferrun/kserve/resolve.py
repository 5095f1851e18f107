"""The answer for an object of any kind. Pure."""

from datetime import datetime

from inferrun.kserve.answer import Answer, Never, Others, Stored, Wanted
from inferrun.kserve.inference_service import resolve_inference_service, revision_of
from inferrun.kserve.kinds import INFERENCE_SERVICE, LLM_INFERENCE_SERVICE
from inferrun.kserve.llm_inference_service import resolve_llm_inference_service
from inferrun.kserve.status import number, text


def resolve(item: Stored, wanted: Wanted, others: Others | None = None, *, now: datetime) -> Answer:
    """Where the model of this object answers, or why it does not; `others` are the objects that were asked for."""
    kind = text(item, "kind")
    if kind == INFERENCE_SERVICE.name:
        return resolve_inference_service(item, wanted, others or {}, now=now)
    if kind == LLM_INFERENCE_SERVICE.name:
        return resolve_llm_inference_service(item, wanted, others or {}, now=now)
    return Never(f"kserve.serviceRef.kind {kind!r} is not supported")


def identity_of(item: Stored) -> tuple[int | None, str]:
    """The generation of an object and the revision that serves its model, empty if KServe reports none."""
    return number(item, "metadata", "generation"), revision_of(item)
