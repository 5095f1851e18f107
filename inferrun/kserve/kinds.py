"""The kinds of KServe's API that a config may refer to, and the versions that this product reads. Pure."""

from dataclasses import dataclass
from typing import Final

GROUP: Final = "serving.kserve.io"


@dataclass(frozen=True)
class Kind:
    """A kind; `versions` are those that can be read, preferred first."""

    name: str
    plural: str
    versions: tuple[str, ...]


INFERENCE_SERVICE: Final = Kind("InferenceService", "inferenceservices", ("v1beta1",))
LLM_INFERENCE_SERVICE: Final = Kind("LLMInferenceService", "llminferenceservices", ("v1alpha2", "v1alpha1"))

KINDS: Final = {kind.name: kind for kind in (INFERENCE_SERVICE, LLM_INFERENCE_SERVICE)}
