"""Reads the memo of workflows and schedules; anybody with access to Temporal can start some with any memo."""

from collections.abc import Mapping
from typing import Protocol

from inferrun.run_ref import RunRef


def is_of_same_cluster(other: object, *, installation: str) -> bool:
    """Whether `other` is the id of this installation, or of another release in the same cluster.

    A release that was renamed has another id, and continues what the earlier one created. The runs that an installation
    may touch are those in the namespaces that it watches; the cluster's part of the id keeps out those of other clusters.
    """
    return isinstance(other, str) and other.rpartition(".")[2] == installation.rpartition(".")[2]


class Described(Protocol):
    """What Temporal lists: a workflow or a schedule."""

    async def memo(self) -> Mapping[str, object]:
        """The memo, decoded."""


async def read_run(item: Described, *, installation: str) -> RunRef | None:
    """The run of a workflow or schedule; None if it is not ours."""
    try:
        memo = await item.memo()
        is_ours = is_of_same_cluster(memo.get("installation"), installation=installation)
        return RunRef.model_validate(memo["run"]) if is_ours and "run" in memo else None
    except Exception:  # noqa: BLE001 -- its client chose the encoding: one bad memo must not keep the others from being read
        return None
