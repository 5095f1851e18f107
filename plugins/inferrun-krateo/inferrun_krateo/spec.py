"""What is sent according to the storage object of the label `krateo`, which is declared with the
built-in stores."""

from collections.abc import Mapping
from typing import Any

import orjson

from inferrun.plugins import Contract, ContractError
from inferrun.plugins.http import split_header
from inferrun.stores.krateo import KrateoApi, KrateoStorage

RESERVED = ("job_uid", "pod_uid", "predictions", "chunk", "offset")
"""Keys of a request body that only the runner sets."""


class Api(KrateoApi):
    """One API call of the data handler."""

    def body(self, contract: Contract) -> dict[str, Any]:  # Any: the payload is the user's JSON
        """Return the payload's members, overridden by the run's parameters."""
        given = orjson.loads(self.payload) if self.payload.strip() else {}
        return {**given, **contract.parameters}

    @property
    def has_authorization(self) -> bool:
        """Whether the config sets the header Authorization, directly or from a Secret."""
        names = [name for name, _ in self.header_items()] + [
            source.name for source in self.headers_from
        ]
        return "authorization" in (name.lower() for name in names)

    def header_items(self) -> list[tuple[str, str]]:
        """Return the headers as pairs; the last one of a name wins, as in the Krateo controller."""
        return list(
            {
                name.lower(): (name, value) for name, value in map(split_header, self.headers)
            }.values()
        )


class KrateoSpec(KrateoStorage):
    """The API call that reads the input or stores the output."""

    api: Api


def reject_reserved(keys: Mapping[str, object], *, where: str) -> None:
    """Raise ContractError if a key would overwrite one that the runner sets."""
    if taken := sorted(set(RESERVED) & set(keys)):
        raise ContractError(
            f"{where}: {', '.join(taken)} is reserved for the runner; use another name"
        )
