"""The error of a record that is not sent, because the model cannot take it. Pure."""

from typing import Final

from inferrun.plugins import RecordError

NOT_SENT: Final = "invalid_input"
"""Its code."""


def not_sent(text: str) -> RecordError:
    """Return the error; `text` says what is wrong with the record."""
    return RecordError(NOT_SENT, text)
