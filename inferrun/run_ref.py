"""The identity of a run, as every layer passes it around."""

from pydantic import BaseModel, ConfigDict


class RunRef(BaseModel):
    """Identifies one run permanently: a name may be reused after a deletion, a UID never is."""

    model_config = ConfigDict(frozen=True)

    namespace: str
    """Kubernetes namespace of the InferenceRun."""

    name: str
    """Name of the InferenceRun."""

    uid: str
    """UID of the InferenceRun."""

    def __str__(self) -> str:
        """Namespace and name, as kubectl users write it."""
        return f"{self.namespace}/{self.name}"
