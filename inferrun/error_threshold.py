"""How many records of a run may fail: `errorThreshold` of a config or a run. Pure."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

PATTERN: Final = r"^([0-9]{1,9}|(100|[0-9]{1,2}([.][0-9]{1,4})?)%)$"
ALLOWED: Final = "a number of records such as 10, or a percentage of the records such as 5% or 0.1%"


@dataclass(frozen=True, slots=True)
class ErrorThreshold:
    """The largest number, or percentage, of records that may fail."""

    text: str

    @classmethod
    def parse(cls, value: int | str) -> Self:
        """Raises ValueError with what is allowed."""
        text = str(value)
        if re.fullmatch(PATTERN, text) is None:
            raise ValueError(f"must be {ALLOWED}")
        return cls(text)

    def allowed(self, records: int) -> int:
        """How many of so many records may fail."""
        if not self.text.endswith("%"):
            return int(self.text)
        return int(Decimal(self.text.removesuffix("%")) * records / 100)

    def __str__(self) -> str:
        return self.text
