"""Checks which workers poll a task queue. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferrun.cli.findings import Finding, ok, problem

STALE_SECONDS: Final = 120
"""Age at which a poller counts as gone: a poll takes at most one minute, and Temporal lists pollers for five."""


@dataclass(frozen=True)
class Poller:
    """A worker that polled a queue: its identity, and the time since its last poll."""

    identity: str
    seconds_ago: float

    @property
    def installation(self) -> str:
        """The installation in an identity `inferrun/<installation>/<pod>`; empty for other identities."""
        parts = self.identity.split("/")
        return parts[1] if len(parts) == 3 and parts[0] == "inferrun" else ""


def judge_queue(queue: str, kind: str, pollers: Sequence[Poller], *, installation: str, restart: str) -> Finding:
    """The finding about a queue. `installation` is empty if unknown; `restart` is the command that restarts the worker."""
    what = f"pollers of task queue {queue} ({kind})"
    alive = [poller for poller in pollers if poller.seconds_ago <= STALE_SECONDS]
    if not alive:
        fix = (
            "check that the worker runs with this temporal.address, temporal.namespace and temporal.taskQueue, or restart it:\n"
            f"{restart}"
        )
        return problem(what, "no worker polls it, so runs are not executed", fix=fix)
    others = sorted({poller.identity for poller in alive if poller.installation != installation})
    if installation and others:
        fix = "use a different task queue for each installation: helm upgrade --set temporal.taskQueue=NAME"
        return problem(what, f"workers of another installation also poll it: {', '.join(others[:3])}", fix=fix)
    return ok(what, f"{len(alive)} worker{'s' if len(alive) > 1 else ''}")
