"""What the storage object of an output says about the files of results: their columns, and how they are divided."""

from pydantic import Field

from inferrun.plugins.storage import StorageSpec


class ResultSpec(StorageSpec):
    """The members of a storage object that concern tables of results."""

    types: dict[str, str] = Field(default_factory=dict)
    """Types of columns by their names."""

    flatten: bool = False
    """Whether each output of the model is a column of its own."""
