"""What the models of both resources have in common: immutable, camelCase in JSON, snake_case in
Python.

Unknown keys are ignored on reading, because an object may have been stored under a newer or an
older definition; the API server prunes unknown keys of new objects. The string under a field is its
documentation: the generator of the CRDs reads it from the source.
"""

from typing import Any, get_args, get_origin

from pydantic import BaseModel

from inferrun.camel_case import CamelCase


def model_in(kind: Any) -> type[BaseModel] | None:  # Any: the annotation of a field
    """The model of an object, or of the items of a list."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind if issubclass(kind, BaseModel) else None
    return next(filter(None, map(model_in, get_args(kind))), None)


class ResourceModel(CamelCase):
    """A part of a resource."""

    # Any: the JSON of a resource is free-form below the storage labels.
    def to_manifest(self) -> dict[str, Any]:
        """The JSON object for the API server: camelCase, unset fields omitted."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
