"""The identity of a run, as every layer passes it around."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel


class RunRef(BaseModel, frozen=True):
    """Identifies one run permanently: a name may be reused after a deletion, a UID never is."""

    namespace: str
    """Kubernetes namespace of the InferenceRun."""

    name: str
    """Name of the InferenceRun."""

    uid: str
    """UID of the InferenceRun."""

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Self:  # Any: JSON
        """The identity of an InferenceRun as the API server returns it."""
        metadata = run["metadata"]
        return cls(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])

    def __str__(self) -> str:
        """Namespace and name, as kubectl users write it."""
        return f"{self.namespace}/{self.name}"
