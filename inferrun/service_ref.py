"""The identity of an object of KServe that serves a model, as every layer passes it around."""

from pydantic import BaseModel, ConfigDict


class ServiceRef(BaseModel):
    """Identifies an object by its kind, namespace and name, as a config refers to it."""

    model_config = ConfigDict(frozen=True)

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.kind} {self.namespace}/{self.name}"
