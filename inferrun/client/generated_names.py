"""Names as Kubernetes generates them."""

import secrets
from typing import Final

from inferrun.names import SUBDOMAIN_LIMIT

NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of names that Kubernetes generates: no vowels, so that they form no words, and no
characters that look alike."""


def generated_name(stem: str) -> str:
    """A name that no other run has, which starts with `stem`."""
    suffix = "".join(secrets.choice(NAME_LETTERS) for _ in range(5))
    return f"{stem[: SUBDOMAIN_LIMIT - 6].rstrip('-.')}-{suffix}"
