"""What the models of both resources have in common: frozen values, camelCase in JSON, snake_case in Python.

Keys that a model does not know are ignored on reading: an object may have been stored under a newer or an older
definition. The API server, not this code, keeps unknown keys out of new objects. Field documentation is the string
under a field; the generator of the CRDs reads it from the source, so it costs nothing when a process starts.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Shape(BaseModel):
    """A part of a resource: frozen, readable by both spellings, written in camelCase."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
    )

    # Any: the JSON of a resource is free-form below the storage labels.
    def to_manifest(self) -> dict[str, Any]:
        """The JSON object as the API server takes it: camelCase, what is unset left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
