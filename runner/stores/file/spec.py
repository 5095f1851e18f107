"""The storage object of the label `file`: `file{claimName, path, format}`."""

from pathlib import PurePosixPath

from pydantic import Field, field_validator

from inferrun.plugins.storage import StorageSpec
from runner.stores.dataset import DatasetSpec
from runner.stores.run_folder.layout import ResultSpec


class FileSpec(StorageSpec):
    """A file or folder on a claim."""

    claim_name: str = Field(alias="claimName", min_length=1)
    path: str = Field(min_length=1)
    format: str = Field(default="jsonl", min_length=1)

    @field_validator("path")
    @classmethod
    def _is_below_claim(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\0" in path:
            raise ValueError('must be relative to the claim, without ".."')
        return path


class FileInputSpec(FileSpec, DatasetSpec):
    """What is read of a claim."""


class FileOutputSpec(FileSpec, ResultSpec):
    """The label under `output`."""
