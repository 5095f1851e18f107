"""The storage object of the label: `file{claimName, path, format}`."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from runner.errors import ContractError
from runner.work_order import describe


class FileSpec(BaseModel):
    """What stands under the label."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    claim_name: str = Field(alias="claimName", min_length=1)
    path: str = Field(min_length=1)
    format: str = Field(default="jsonl", min_length=1)

    @field_validator("path")
    @classmethod
    def _stays_below(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
            raise ValueError('allowed: a path relative to the claim, without ".."')
        return path


def read_spec(spec: Mapping[str, object], *, side: str) -> FileSpec:
    """The storage object, checked; raises ContractError that names the field."""
    try:
        return FileSpec.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{side}.file.{describe(error)}") from error
