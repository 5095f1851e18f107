"""References to Secrets in the namespace of a run."""

from typing import Annotated

from pydantic import Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName

SecretKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a Secret or a ConfigMap."""


class SecretRef(ResourceModel):
    """Reference to a Secret in the namespace of the run."""

    name: ResourceName
    """Name of the Secret."""


class SecretKeyReference(ResourceModel):
    """Reference to a key of a Secret in the namespace of the run."""

    name: ResourceName
    """Name of the Secret."""

    key: SecretKey
    """Key whose value is used."""
