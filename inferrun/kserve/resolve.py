"""The answer for an object of any kind. Pure."""

from datetime import datetime

from inferrun.kserve.answer import Answer, ModelAddress, Never, Others, Stored, Wanted
from inferrun.kserve.inference_service import resolve_inference_service, revision_of
from inferrun.kserve.kinds import INFERENCE_SERVICE, LLM_INFERENCE_SERVICE
from inferrun.kserve.llm_inference_service import resolve_llm_inference_service
from inferrun.kserve.status import name_of, number, text


def resolve(item: Stored, wanted: Wanted, others: Others | None = None, *, now: datetime) -> Answer:
    """Where the model of this object answers, or why it does not; `others` are the objects that were asked for, and `now` is the
    API server's time, which is compared with that of the last edit.
    """
    answer = _resolve(item, wanted, others or {}, now=now)
    return (_excess(item, answer) or answer) if isinstance(answer, ModelAddress) else answer


def _resolve(item: Stored, wanted: Wanted, others: Others, *, now: datetime) -> Answer:
    kind = text(item, "kind")
    if kind == INFERENCE_SERVICE.name:
        return resolve_inference_service(item, wanted, others, now=now)
    if kind == LLM_INFERENCE_SERVICE.name:
        return resolve_llm_inference_service(item, wanted, others, now=now)
    return Never(f"kserve.serviceRef.kind {kind!r} is not supported")


def _excess(item: Stored, address: ModelAddress) -> Never | None:
    """The answer for an object of which something does not fit into a run's status, or is not one line of text."""
    limits = (
        ("an address", address.url, 4096),
        ("a model name", address.model_name, 2048),
        ("a protocol", address.protocol, 32),
    )
    for what, value, limit in limits:
        if len(value) > limit or not value.isprintable():
            return Never(
                f"{name_of(item)} has {what} of {len(value)} characters; allowed are {limit}, all of which can be printed; fix "
                "it, then delete and recreate the run"
            )
    return None


def identity_of(item: Stored) -> tuple[int | None, str]:
    """The generation of an object and the revision that serves its model, empty if KServe reports none."""
    return number(item, "metadata", "generation"), revision_of(item)
