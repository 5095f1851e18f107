"""The storage object of the label `sql`: `credentialsRef{name}`, and `query` and `key` of an input or `table` of an output."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from inferrun.plugins import ContractError
from runner.contract_file import describe


class CredentialsRef(BaseModel):
    """The Secret with address and credentials; the control plane mounts it from the run's namespace."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    credentials_ref: CredentialsRef = Field(alias="credentialsRef")


class SqlInputSpec(_Spec):
    """The query whose rows are the records."""

    query: str = Field(min_length=1)
    key: str = Field(default="", max_length=63)

    @field_validator("query")
    @classmethod
    def _is_one_statement(cls, query: str) -> str:
        text = query.strip().removesuffix(";").rstrip()
        if not text or "\0" in text:
            raise ValueError("must be one SELECT statement")
        return text


class SqlOutputSpec(_Spec):
    """The table of the predictions."""

    table: str = Field(min_length=1, max_length=127)

    @field_validator("table")
    @classmethod
    def _is_name(cls, table: str) -> str:
        parts = table.split(".")
        if len(parts) > 2 or not all(part.isidentifier() and part.isascii() and len(part) < 64 for part in parts):
            raise ValueError(
                "must be a name of letters, digits and underscores, such as predictions or results.predictions"
            )
        return table


Spec = TypeVar("Spec", bound=_Spec)


def read_spec(spec: Mapping[str, object], *, model: type[Spec], side: str) -> Spec:
    """Validate the storage object. Raises ContractError with the field."""
    try:
        return model.model_validate(spec)
    except ValidationError as error:
        raise ContractError(f"{side}.sql.{describe(error)}") from error
