"""Requests to Temporal: their time limit, the workflows of a run and of its submission, and values
of other clients.

The client retries a request to an unreachable server for about ten seconds, and waits for a server
that accepts the connection but does not answer. A limit around the whole call covers both.

A run is executed by its own workflow; if that closed before the run ended, a recovery workflow took
over. Signals and cancellation go to both ids, because the sender cannot know which one is running:
another program may use the id of one that closed. A signal without which the workflow would only
act later goes to the first of them that is open.

Which workflow submitted a run is written in an annotation of the run, which users of its namespace
can edit. It is signalled only if its own record says that it submitted this run.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from inferrun.names import (
    recover_workflow_id,
    run_workflow_id,
    scheduled_run_name,
    submitted_run_name,
)
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE, InvalidSubmission, Submission, parse_submission


@dataclass(frozen=True, kw_only=True)
class TemporalTiming:
    """Seconds."""

    call: float = 5.0
    """A healthy server answers in milliseconds; after this time the caller retries later and its
    lane serves another run."""

    schedule_call: float = 15.0
    """The limit for schedules: the server answers from a workflow of its own, which takes seconds
    on a busy server."""

    interval: float = 5.0
    """The time between two requests that find out whether the server answers; with their limit, a
    replacement is noticed within 10 s."""

    tolerated: float = 30.0
    """How long a process stays ready without an answer: a server that restarts is no reason for an
    alarm."""

    def __post_init__(self) -> None:
        if not max(self.schedule_call, self.interval + self.call) < self.tolerated:
            raise ValueError(f"needs schedule_call, interval + call < tolerated, not {self}")


TIMING: Final = TemporalTiming()


def call_deadline(*, seconds: float = TIMING.call) -> asyncio.Timeout:
    """A context manager that raises TimeoutError if the request inside takes longer."""
    return asyncio.timeout(seconds)


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Suppress NOT_FOUND: the workflow or schedule does not exist, or has already closed. Other
    errors propagate."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def decode_foreign(client: Client, payloads: Sequence[Payload]) -> list[object] | None:
    """Values that any client may have written, in any encoding; None if they cannot be decoded, for
    whatever reason."""
    try:
        return list(await client.data_converter.decode(payloads))
    except Exception:  # noqa: BLE001 -- what one program has written must not stop what is done for another one
        return None


def workflow_ids(run: RunRef) -> tuple[str, str]:
    """The ids under which a run may be executing: its own workflow and the recovery workflow."""
    own = run_workflow_id(run)
    return own, recover_workflow_id(own)


async def cancel_run(client: Client, run: RunRef) -> None:
    """Request cancellation of every workflow that executes the run; no running workflow is
    success."""
    for workflow_id in workflow_ids(run):
        with ignore_not_found():
            async with call_deadline():
                await client.get_workflow_handle(workflow_id).cancel()


async def signal_run(
    client: Client, run: RunRef, signal: str, argument: BaseModel | None = None
) -> bool:
    """Signal every workflow that executes the run; False if none is open."""
    return any(
        [
            await signal_workflow(client, workflow_id, signal, argument)
            for workflow_id in workflow_ids(run)
        ]
    )


async def wake_run(
    client: Client, run: RunRef, signal: str, argument: BaseModel | None = None
) -> bool:
    """Signal the workflow that executes the run, at half the cost; False if none is open."""
    for workflow_id in workflow_ids(run):
        if await signal_workflow(client, workflow_id, signal, argument):
            return True
    return False


async def signal_workflow(
    client: Client, workflow_id: str, signal: str, argument: BaseModel | None = None
) -> bool:
    """Signal a workflow; False if it does not exist or has closed."""
    handle = client.get_workflow_handle(workflow_id)
    with ignore_not_found():
        async with call_deadline():
            await (handle.signal(signal) if argument is None else handle.signal(signal, argument))
            return True
    return False


def is_of_same_cluster(other: object, *, installation: str) -> bool:
    """Whether `other` is the id of this installation, or of another release in the same cluster.

    A release that was renamed has another id, and continues what the earlier one created. The runs
    that an installation may touch are those in the namespaces that it watches; the cluster's part
    of the id keeps out those of other clusters.
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


MAX_ID_LENGTH: Final = 1000
"""Temporal's own limit; a longer id is rejected, however often the request is repeated."""

TIME_DIGITS: Final = 14
"""The end of the name of a schedule's run: its nominal time."""


async def notify_submitter(client: Client, submitter: str, run: RunRef, *, signal: str) -> None:
    """Signal the workflow that submitted the run; if its id is empty, or it has closed, nothing
    happens."""
    if not 0 < len(submitter) <= MAX_ID_LENGTH:
        return
    try:
        submission = await read_submission(client, submitter)
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return
        raise
    if submission is None or submission.namespace != run.namespace:
        return
    if submission.following is not None:
        has_submitted = submission.following.uid == run.uid
    elif submission.parent is not None:
        has_submitted = (
            scheduled_run_name(submission.parent.name, run.name[-TIME_DIGITS:]) == run.name
        )
    else:
        has_submitted = submitted_run_name(submitter) == run.name
    if has_submitted:
        await signal_workflow(client, submitter, signal)


async def read_submission(
    client: Client, workflow_id: str, *, run_id: str | None = None
) -> Submission | None:
    """The request with which an execution was started, by default the latest one; None if it has
    not submitted a run, or if the request is invalid. Raises RPCError.
    """
    async with call_deadline():
        async for first in client.get_workflow_handle(
            workflow_id, run_id=run_id
        ).fetch_history_events(page_size=1):
            started = first.workflow_execution_started_event_attributes
            if started.workflow_type.name != WORKFLOW_TYPE:
                return None
            values = await decode_foreign(client, started.input.payloads)
            try:
                return parse_submission(values[0]) if values else None
            except InvalidSubmission:
                return None
    return None
