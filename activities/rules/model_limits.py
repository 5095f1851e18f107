"""Limits of the built-in runner that follow from the object of KServe that serves its model. Pure.

A request that takes longer than the server allows is cut off, after it has cost a replica that time. The runner begins with as many
requests as the replicas accept at a time, and finds out whether more are of use. With a fixed concurrency it begins with one.
"""

from typing import Final

from activities.rules.snapshot import CompiledRun
from inferrun.plugins.limits import MAX_CONCURRENCY, Limits

BELOW_THE_LIMIT: Final = 0.9
"""Share of the server's time limit after which the runner gives a request up, so that it is the runner that decides."""


def model_limits(compiled: CompiledRun) -> dict[str, str]:
    """Environment variables of the runner; those that the config sets keep their value, except for a timeout that is too long."""
    service = compiled.service
    if service is None:
        return {}
    given = compiled.snapshot.limits
    start = 1 if "INFERRUN_CONCURRENCY" in given else min(max(1, service.concurrency), MAX_CONCURRENCY)
    found = {"INFERRUN_START_CONCURRENCY": str(start)}
    wanted = float(given.get("INFERRUN_REQUEST_TIMEOUT", Limits().request_timeout))
    allowed = max(1.0, service.request_seconds * BELOW_THE_LIMIT)
    if service.request_seconds and wanted > allowed:
        found["INFERRUN_REQUEST_TIMEOUT"] = f"{allowed:g}"
    return found
