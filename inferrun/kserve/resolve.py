"""The answer for an object of any kind. Pure."""

from datetime import datetime

from inferrun.kserve.answer import Answer, Answered, Never, Others, Stored, Wanted
from inferrun.kserve.inference_service import resolve_inference_service, revision_of
from inferrun.kserve.kinds import INFERENCE_SERVICE, LLM_INFERENCE_SERVICE
from inferrun.kserve.llm_inference_service import resolve_llm_inference_service
from inferrun.kserve.status import name_of, number, text


def resolve(item: Stored, wanted: Wanted, others: Others | None = None, *, now: datetime) -> Answer:
    """Where the model of this object answers, or why it does not; `others` are the objects that were asked for, and `now` is the
    API server's time, which is compared with that of the last edit.
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
    """The generation of an object and the revision that serves its model, empty if KServe reports none."""
    return number(item, "metadata", "generation"), revision_of(item)
