"""Metadata of a stored object and the ways in which one object names another.

Only what the product acts on is modelled. Nothing here checks that a referenced object exists.
"""

from typing import Annotated

from pydantic import Field

from inferrun.resources.resource_model import ResourceModel
from inferrun.resources.scalars import Instant, NamespaceName, ResourceName, Uid


class OwnerReference(ResourceModel):
    """The owner of an object; when the owner is deleted, Kubernetes deletes the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(ResourceModel):
    """The part of `metadata` that is read, of an object as the API server returns it."""

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
        """Whether somebody asked for its deletion; it may still be there because of a finalizer."""
        return self.deletion_timestamp is not None


class ConfigReference(ResourceModel):
    """Names an InferenceConfig."""

    name: ResourceName
    """Name of the InferenceConfig."""

    namespace: NamespaceName | None = None
    """Namespace of the InferenceConfig. Default: the namespace of the run. Another namespace works only where the
    operator of the cluster allows it (setting allowCrossNamespaceConfig)."""


class SecretReference(ResourceModel):
    """Names the Secret with which the image is pulled."""

    name: ResourceName
    """Name of a Secret of type kubernetes.io/dockerconfigjson in the namespace of the run."""

    namespace: NamespaceName | None = None
    """Accepted for older manifests. A Pod can use a pull Secret of its own namespace only, so the Secret is taken by
    its name from the namespace of the run; if it is not there, the status says how to copy it."""


class ObjectReference(ResourceModel):
    """Names any object, as Kubernetes' ObjectReference does."""

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
