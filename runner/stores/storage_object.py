"""What the storage objects of all labels have in common."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferrun.plugins import ContractError
from runner.contract_file import describe


class CredentialsRef(BaseModel):
    """The Secret with credentials; the control plane mounts it from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class StorageSpec(BaseModel):
    """A storage object. Unknown members are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Spec = TypeVar("Spec", bound=StorageSpec)


def read_spec(spec: Mapping[str, object], model: type[Spec], *, field: str) -> Spec:
    """Validate the storage object in a field such as `input.file`. Raises ContractError with the field."""
    try:
        return model.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{field}.{describe(error)}") from error
