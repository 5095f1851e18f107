"""Quantities and sizes as Kubernetes writes them, such as 500m and 256Mi. Pure."""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

QUANTITY: Final = r"^[+-]?[0-9.]+([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$"
"""What a quantity may look like. With an exponent of nine digits, which Kubernetes allows, it takes
the API server more than half a minute to read it."""

SIZE: Final = r"^[1-9][0-9]{0,12}([kMGT]|[KMGT]i)?$"
"""What a size in bytes may look like: a quantity without fractions."""

_UNITS: Final = {
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}


def amount(quantity: int | str) -> Decimal:
    """The value of a Kubernetes quantity such as 500m, 1.5 or 256Mi; 0 if it is invalid."""
    text = str(quantity)
    if not re.fullmatch(QUANTITY, text):
        return Decimal(0)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, 1)
    except InvalidOperation:
        return Decimal(0)
