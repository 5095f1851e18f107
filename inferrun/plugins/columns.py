"""Which columns of an input are used, and for what. No I/O."""

from dataclasses import dataclass
from typing import Final

ID_COLUMN: Final = "custom_id"
"""The column of ids, which is copied to the results whatever else is."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """The columns that feed the model, and those that are copied to the results."""

    fed: tuple[str, ...] = ()
    """Columns whose values feed the model, each once. A record is then a JSON object or a row with
    these columns. Empty: all columns that `copied` does not name feed it, and a record is an array
    of numbers."""

    copied: tuple[str, ...] = ()
    """Columns that are copied."""

    copies_all: bool = False
    """Whether all columns are copied, except that of ids."""

    takes_any: bool = False
    """Whether the model takes columns of every type. Without `fed` these are all, and a record is
    an object or a row."""

    fed_field: str = "tensors.inputs"
    """The field of the contract that names the columns of `fed`, for messages."""

    def __bool__(self) -> bool:
        return bool(self.fed or self.copied or self.copies_all or self.takes_any)

    @property
    def has_names(self) -> bool:
        """Whether the records are objects or rows whose columns the model knows by name."""
        return bool(self.fed or self.takes_any)

    @property
    def copies_any(self) -> bool:
        """Whether any column is copied."""
        return self.copies_all or bool(self.copied)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that the input must have."""
        return tuple(dict.fromkeys(self.fed + self.copied))

    def copied_of(self, names: list[str]) -> list[str]:
        """Return which of the columns of a file are copied."""
        return (
            [name for name in names if name != ID_COLUMN] if self.copies_all else list(self.copied)
        )

    def fed_of(self, names: list[str]) -> list[str]:
        """Return which of the columns of a file feed the model."""
        others = [
            name
            for name in names
            if name != ID_COLUMN and (self.takes_any or name not in self.copied)
        ]
        return list(self.fed) or others


ALL_COLUMNS: Final = ColumnSelection()
"""All columns feed the model, as an array of numbers."""
