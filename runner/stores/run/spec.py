"""The storage object of the input label `run`: `name` of a run, or `schedule` whose run of the same interval is read."""

from typing import Self

from pydantic import Field, model_validator

from inferrun.plugins.storage import StorageSpec


class RunInputSpec(StorageSpec):
    """What the control plane has resolved to `inputRun` of the contract."""

    name: str = Field(default="", max_length=253)
    schedule: str = Field(default="", max_length=253)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if bool(self.name) == bool(self.schedule):
            raise ValueError("must have either name or schedule")
        return self
