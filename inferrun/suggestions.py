"""The known word that somebody probably meant. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST_WORD: Final = 64
"""Characters of a word for which a similar one is searched; the time grows with the square of the
length."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion of the most similar known word, or an empty string."""
    if len(word) > LONGEST_WORD:
        return ""
    by_lower = {candidate.lower(): candidate for candidate in known}
    likely = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f", did you mean {by_lower[likely[0]]}?" if likely else ""
