"""Reads the memo of workflows and schedules; anybody with access to Temporal can start some with any memo."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import ValidationError

from control.cluster_identity import is_of_same_cluster
from inferrun.run_ref import RunRef


class Described(Protocol):
    """What Temporal lists: a workflow or a schedule."""

    async def memo(self) -> Mapping[str, object]:
        """The memo, decoded."""


async def read_memo(item: Described) -> Mapping[str, object]:
    """The memo; empty if it cannot be decoded: the client that started a workflow chose the encoding."""
    try:
        return await item.memo()
    except Exception:  # noqa: BLE001 -- one bad memo must not keep the others from being read
        return {}


def run_of_memo(memo: Mapping[str, object], *, installation: str) -> RunRef | None:
    """The run of a workflow; None if it is not ours. Anybody with access to Temporal can start one with such a memo."""
    if not is_of_same_cluster(memo.get("installation"), installation=installation) or "run" not in memo:
        return None
    try:
        return RunRef.model_validate(memo["run"])
    except ValidationError:
        return None
