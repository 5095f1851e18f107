"""The records of the campaign, and what the server answers to each. Pure.

An answer is a function of its record, and differs from that of every other record, so that results
can be compared record by record. All numbers are multiples of 1/8 or 1/512 and exact in FP32 or
FP64. `server/main.go` has the same functions.
"""

import zlib
from typing import Final

COLUMNS: Final = ("x0", "x1", "x2", "x3")
"""The names of the values of a row, in tables and objects."""

WEIGHTS: Final = (1.0, 1_000.0, 1_000_000.0, 1 / 64)
SYSTEM: Final = "You are a helpful assistant."
INSTRUCTION: Final = "Classify the sentiment of this review: "
_REFUSED_OF, _REFUSED_REST = 100, 37


def values_of(number: int) -> tuple[float, float, float, float]:
    """The four values of a row, which differ from those of all other rows."""
    return (
        number % 1000 / 8,
        number // 1000 % 1000 / 8,
        number // 1_000_000 / 8,
        number % 13 / 8,
    )


def number_of(first: float, second: float, third: float) -> int:
    """The number of the row with these values."""
    return round(8 * first) + 1000 * round(8 * second) + 1_000_000 * round(8 * third)


def prediction_of(number: int) -> float:
    """What the server predicts of a row."""
    return sum(value * weight for value, weight in zip(values_of(number), WEIGHTS, strict=True))


def text_of(number: int) -> str:
    """The text of a record with a text, which is in its chat request as well."""
    return f"Review number {number}: the quick brown fox jumps over the lazy dog and sleeps in the sun."


def prompt_of(number: int) -> str:
    """The last message of a record's chat request."""
    return INSTRUCTION + text_of(number)


def answer_of(number: int) -> str:
    """What the server answers to a record's chat request."""
    prompt = prompt_of(number)
    return f"{zlib.crc32(prompt.encode()):08x} answers: {prompt}"


def chat_of(number: int) -> dict[str, object]:
    """A record's chat request."""
    return chat_about(text_of(number))


def chat_about(text: str) -> dict[str, object]:
    """The chat request about a text."""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": INSTRUCTION + text},
    ]
    return {"model": "m", "messages": messages, "max_tokens": 64}


def is_row_refused(number: int) -> bool:
    """Whether a server that refuses records refuses this row."""
    return number % 1000 % _REFUSED_OF == _REFUSED_REST


def is_chat_refused(number: int) -> bool:
    """Whether a server that refuses records refuses this chat request."""
    return zlib.crc32(prompt_of(number).encode()) % _REFUSED_OF == _REFUSED_REST
