"""Commits a run while the process is being stopped: it reports success if and only if the run is
committed.

A commit in progress may complete within a few seconds. After that the store is asked to abandon it,
and reports whether it was too late for that. If the store does not answer, a request that is under
way may still commit the run: then nobody knows yet, and the process says so.
"""

import asyncio
from contextlib import suppress
from typing import TypeVar

from inferrun.plugins import CommittedRun, Counts, OutputStore
from inferrun.stop_timing import STOP
from inferrun_runner.errors import CommitUnclear

T = TypeVar("T")


async def finish(sink: OutputStore, counts: Counts) -> CommittedRun:
    """Let a commit that has begun complete even if the process is stopped, but not for longer than
    the grace period allows.

    Raises CommitUnclear if the process is stopped and the store does not say whether the run is
    committed.
    """
    commit = asyncio.create_task(sink.finish(counts))
    try:
        return await asyncio.shield(commit)
    except asyncio.CancelledError:
        await _wait_for(commit, seconds=STOP.commit)
        if not commit.done():
            commit.cancel()
            await _wait_for(commit, seconds=STOP.last_check)
        if not commit.done() or (commit.cancelled() and sink.delivery != "ExactlyOnce"):
            raise CommitUnclear from None  # a store of another kind cannot take a request back
        if not commit.cancelled():
            return commit.result()
        raise


async def find_commit(sink: OutputStore) -> CommittedRun | None:
    """Return the run's commit if another attempt made one in the meantime."""
    check = asyncio.create_task(ask_commit(sink))
    await _wait_for(check, seconds=STOP.last_check)
    if not check.done():
        check.cancel()
        return None
    if check.cancelled() or check.exception():
        return None
    return check.result()


async def ask_commit(sink: OutputStore) -> CommittedRun | None:
    """Ask the store for the run's commit. Raises OutputError."""
    found = sink.abilities.find_commit
    return await found() if found else (await sink.open()).committed_run


async def _wait_for(task: asyncio.Task[T], *, seconds: float) -> None:
    """Wait until a task is done or the time is over, ignoring further cancellations, which would
    end the wait early."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not task.done() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=left)
