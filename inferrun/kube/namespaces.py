"""The namespaces that an installation serves: all of them, or a list. A value; no I/O."""

import re
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 30
"""Namespaces in a list. Each of them costs a worker up to five watches, that is, five of its 200
connections."""

SERVED_TWICE_FIX: Final = (
    "set watchNamespace of one of the two releases to other namespaces, or uninstall one"
)
"""For two installations that serve the same namespace."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Namespaces:
    """`namespace in served` is whether that namespace is served."""

    names: tuple[str, ...] = ()
    """Empty: all."""

    @classmethod
    def parse(cls, text: str) -> "Namespaces":
        """Names separated by commas; empty: all. Raises ValueError with what is wrong."""
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name[:64]!r} is not the name of a namespace; separate several with commas"
                )
        if len(names) > LIMIT:
            raise ValueError(
                f"{len(names)} namespaces are listed; at most {LIMIT}, or none for all namespaces"
            )
        return cls(names)

    def __contains__(self, namespace: str) -> bool:
        return not self.names or namespace in self.names


ALL: Final = Namespaces()
