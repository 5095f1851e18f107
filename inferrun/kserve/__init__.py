"""KServe's objects: from the object to the address of its model, or to the reason why there is none yet. Pure.

`resolve` reads an `InferenceService` or an `LLMInferenceService` as its controller wrote it. What it needs besides the object
(a Service, a serving runtime) it asks for; whoever has an API server reads it and asks again. Nothing here sends a request.
"""

from inferrun.kserve.answer import UNREADABLE, Answer, ModelAddress, Needs, Never, NotYet, Other, Wanted
from inferrun.kserve.kinds import GROUP, KINDS, Kind
from inferrun.kserve.resolve import identity_of, resolve

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
