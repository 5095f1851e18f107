"""The storage object of the label `file`: `file{claimName, path, format}`."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from inferrun.plugins import ContractError
from runner.contract_file import describe


class FileSpec(BaseModel):
    """A file or folder on a claim."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    claim_name: str = Field(alias="claimName", min_length=1)
    path: str = Field(min_length=1)
    format: str = Field(default="jsonl", min_length=1)

    @field_validator("path")
    @classmethod
    def _is_below_claim(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
            raise ValueError('must be relative to the claim, without ".."')
        return path


def read_spec(spec: Mapping[str, object], *, side: str) -> FileSpec:
    """Validate the storage object. Raises ContractError with the field."""
    try:
        return FileSpec.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{side}.file.{describe(error)}") from error
