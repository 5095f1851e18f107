"""Whether workers serve the task queues, and whose they are. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferrun.cli.findings import Finding, ok, problem

STALE_SECONDS: Final = 120
"""A poll lasts a minute at most, and Temporal remembers those that have gone for five: older ones are dead workers'."""


@dataclass(frozen=True)
class Poller:
    """A worker that asked a queue for tasks: its identity, and how long ago."""

    identity: str
    seconds_ago: float

    @property
    def installation(self) -> str:
        """The installation in an identity of ours, `inferrun/<installation>/<pod>`; empty for others."""
        parts = self.identity.split("/")
        return parts[1] if len(parts) == 3 and parts[0] == "inferrun" else ""


def judge_queue(queue: str, kind: str, pollers: Sequence[Poller], *, installation: str, restart: str) -> Finding:
    """The finding on one queue; `installation` is empty where it is not known, `restart` is the worker's Deployment."""
    what = f"pollers of task queue {queue} ({kind})"
    alive = [poller for poller in pollers if poller.seconds_ago <= STALE_SECONDS]
    if not alive:
        cure = (
            "see that the worker runs, and that its temporal.address, temporal.namespace and temporal.taskQueue are these;\n"
            f"{restart}"
        )
        return problem(what, "no worker polls it, so nothing is executed", cure=cure)
    others = sorted({poller.identity for poller in alive if poller.installation != installation})
    if installation and others:
        cure = "give each installation a task queue of its own: helm upgrade --set temporal.taskQueue=NAME"
        return problem(what, f"workers of another installation poll it too: {', '.join(others[:3])}", cure=cure)
    return ok(what, f"{len(alive)} worker{'s' if len(alive) > 1 else ''}")
