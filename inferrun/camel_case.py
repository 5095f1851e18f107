"""The base of models whose JSON has camelCase, as Kubernetes' objects have: of resources, documents
and messages."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class CamelCase(BaseModel):
    """An immutable value; its members have snake_case in Python."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,  # a program uses few of the models that it imports
    )
