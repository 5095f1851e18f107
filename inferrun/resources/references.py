"""Metadata of a stored object, and references from one object to another.

Only fields that the product uses are modelled. Nothing here checks whether a referenced object
exists.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import Instant, NamespaceName, ResourceName, Uid


class OwnerReference(ResourceModel):
    """The owner of an object, with which Kubernetes deletes the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(ResourceModel):
    """The fields of `metadata` that the product reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None

    @property
    def is_being_deleted(self) -> bool:
        """Whether deletion was requested; a finalizer may still keep the object."""
        return self.deletion_timestamp is not None


class ConfigReference(ResourceModel):
    """Reference to an InferenceConfig."""

    name: ResourceName
    """Name of the InferenceConfig."""

    namespace: NamespaceName | None = None
    """Namespace of the InferenceConfig. Default: the namespace of the run. Another namespace must
    grant its use to the namespace of the run (ConfigMap inferrun-grants), unless the installation's
    setting allowCrossNamespaceConfig allows all."""


class SecretReference(ResourceModel):
    """Reference to the Secret with the credentials for pulling the image."""

    name: ResourceName
    """Name of a Secret of type kubernetes.io/dockerconfigjson in the namespace of the run."""

    namespace: NamespaceName | None = None
    """Accepted for compatibility with older manifests. A Pod can only use a pull Secret in its own
    namespace, so the Secret of this name in the run's namespace is used. If it is missing, the
    status shows the command that copies it."""


class ServiceKind(StrEnum):
    """The kinds of KServe that serve models."""

    INFERENCE_SERVICE = "InferenceService"
    LLM_INFERENCE_SERVICE = "LLMInferenceService"


class ServiceReference(ResourceModel):
    """Reference to an object of KServe that serves the model."""

    kind: ServiceKind = ServiceKind.INFERENCE_SERVICE
    """InferenceService (the default) or LLMInferenceService, in the API group serving.kserve.io."""

    name: ResourceName
    """Name of the object."""

    namespace: NamespaceName | None = None
    """Namespace of the object. Default: the namespace of the run."""


class ObjectReference(ResourceModel):
    """Reference to an object, as in Kubernetes."""

    api_version: Annotated[str, Field(max_length=253)] | None = None
    """API version of the object."""

    kind: Annotated[str, Field(max_length=63)] | None = None
    """Kind of the object."""

    name: Annotated[str, Field(max_length=253)] | None = None
    """Name of the object."""

    namespace: Annotated[str, Field(max_length=63)] | None = None
    """Namespace of the object."""

    uid: Uid | None = None
    """UID of the object."""
