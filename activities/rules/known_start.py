"""What is known of the start of a run where the users of its namespace cannot write: its status. Pure.

Contract and snapshot are stored in a ConfigMap in the users' namespace. It counts only if it is what a worker wrote.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from activities.rules.snapshot import CONTRACT_KEY, SNAPSHOT_KEY, hash_of
from inferrun.resources import InferenceRun


@dataclass(frozen=True)
class KnownStart:
    """`hash` is that of the ConfigMap's texts. Without it, `contract` is the contract of a run that an earlier version
    started; without both, the run has not been started as far as its status says.
    """

    hash: str = ""
    contract: str = ""

    @classmethod
    def of(cls, run: InferenceRun) -> Self:
        """Read from the status, which only our processes may write."""
        return cls(hash=run.status.snapshot_hash or "", contract=_decoded(run.status.contract or ""))

    def __bool__(self) -> bool:
        """Whether the run has been started."""
        return bool(self.hash or self.contract)

    def recognises(self, texts: Mapping[str, str]) -> bool:
        """Whether these are the texts with which the run was started."""
        if self.hash:
            return hmac.compare_digest(self.hash, hash_of(texts))
        return bool(self.contract) and texts.get(CONTRACT_KEY) == self.contract


def texts_of(data: object) -> dict[str, str]:
    """The two texts in the data of a ConfigMap, empty if they are missing."""
    found = data if isinstance(data, dict) else {}
    return {key: str(found.get(key) or "") for key in (CONTRACT_KEY, SNAPSHOT_KEY)}


def _decoded(contract: str) -> str:
    try:
        return base64.b64decode(contract, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
