"""A launch that leaves no readable result: the store decides whether the run has succeeded."""

import pytest

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.launches.verification_timing import VERIFICATION
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import OutputFinding, OutputState
from tests.workflow.cluster import COMMITTED, Cluster, Plan, fails, succeeds
from tests.workflow.stage import Staged, is_cancelled, result_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

UNKNOWN = OutputFinding(state=OutputState.UNKNOWN, message="the store is down")
MAX_VERIFICATION_EVENTS = 9
"""Two local activities 2, signal 1, two workflow tasks 6; its timer is within the 12 of an
attempt."""


def is_lost(*, kind: VerdictKind = VerdictKind.FAILED, may_retry: bool = True) -> Plan:
    """A Pod that disappears without a readable result."""
    verdict = Verdict(
        kind=kind,
        reason=Reason.POD_LOST,
        message="the Pod no longer exists",
        may_retry=may_retry,
        is_unclear=True,
    )
    return Plan(verdict=verdict)


async def test_a_lost_pod_that_had_committed_has_succeeded_at_its_first_attempt(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[is_lost()], finding=COMMITTED)
    result = await staged.success(cluster)
    assert (result["phase"], result["records"]["completed"], result["delivery"]) == (
        "Succeeded",
        150,
        "ExactlyOnce",
    )
    assert (cluster.outcome.attempt, len(cluster.jobs), cluster.outcome.records) == (
        1,
        1,
        COMMITTED.records,
    )
    assert [attempt.reason for attempt in cluster.outcome.attempts] == [Reason.SUCCEEDED]


async def test_a_lost_pod_that_had_not_committed_is_retried(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost(), succeeds()])
    await staged.success(cluster)
    assert [request.is_final for request in cluster.verifications] == [False, False]
    assert [request.job_uid for request in cluster.verifications] == ["", "uid-verify-1"]
    assert len(cluster.jobs) == 2
    assert [attempt.reason for attempt in cluster.outcome.attempts] == [
        Reason.POD_LOST,
        Reason.SUCCEEDED,
    ]
    assert "the output is not committed" in (cluster.outcome.attempts[0].message or "")


async def test_the_last_attempt_is_verified_finally_and_fails(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost()], backoff_limit=0)
    error = await staged.failure(cluster)
    assert error.type == Reason.POD_LOST
    assert {(request.launch, request.is_final) for request in cluster.verifications} == {(1, True)}


async def test_an_earlier_lost_pod_is_ruled_out_before_the_run_fails(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost(), fails(may_retry=False)])
    error = await staged.failure(cluster)
    assert error.type == Reason.INFERENCE_FAILED
    assert [(request.launch, request.is_final) for request in cluster.verifications[-2:]] == [
        (1, True),
        (1, True),
    ]


async def test_an_earlier_lost_pod_that_commits_late_makes_the_run_succeed(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost(), Plan(ends_after=None)], timeout_seconds=300)
    async with staged.run(cluster, seconds=60) as stage:
        cluster.finding = COMMITTED
        await stage.succeeds()


async def test_a_clear_failure_is_not_verified(staged: Staged) -> None:
    cluster = Cluster(plans=[fails(), fails(), succeeds()])
    await staged.success(cluster)
    assert not cluster.verifications


async def test_a_deadline_during_the_commit_is_a_success(staged: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(ends_after=None)], timeout_seconds=60, is_stop_unclear=True, finding=COMMITTED
    )
    await staged.success(cluster)
    assert {request.is_final for request in cluster.verifications} == {True}


@pytest.mark.parametrize("is_suspended", [False, True], ids=["cancelled", "suspended"])
async def test_a_run_that_is_stopped_during_its_commit_has_succeeded(
    *, staged: Staged, is_suspended: bool
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], is_stop_unclear=True, finding=COMMITTED)
    async with staged.run(cluster, seconds=30) as stage:
        await (stage.suspend() if is_suspended else stage.handle.cancel())
        await stage.succeeds()


async def test_a_cancellation_during_a_verification_waits_for_what_it_finds(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost()], finding=COMMITTED, verification_seconds=60)
    async with staged.run(cluster, seconds=20) as stage:
        await stage.handle.cancel()
        await stage.succeeds()


async def test_a_cancelled_waiting_run_is_not_verified(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(starts_after=None, ends_after=None)])
    async with staged.run(cluster, seconds=30) as stage:
        await stage.handle.cancel()
        assert await is_cancelled(stage.handle)
    assert not cluster.verifications


async def test_a_verification_that_does_not_end_is_given_up(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost()], backoff_limit=0, verification_seconds=None)
    error = await staged.failure(cluster)
    took = (cluster.now - min(cluster.verifying.values())).total_seconds()
    assert error.type == Reason.POD_LOST
    assert "it is unknown whether the output was stored" in error.message
    assert VERIFICATION.whole - 10 < took < VERIFICATION.whole + 30


async def test_what_cannot_be_found_out_is_said_and_retried(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost(), succeeds()], finding=UNKNOWN)
    await staged.success(cluster)
    assert cluster.published[0].reason == Reason.RETRY_BACKOFF
    assert "the store is down" in cluster.published[0].message


async def test_a_run_that_is_deleted_meanwhile_is_not_waited_for(staged: Staged) -> None:
    cluster = Cluster(plans=[is_lost()], verification_seconds=None)
    async with staged.run(cluster, seconds=30) as stage:
        cluster.is_deleted = True
        assert (await stage.result())["phase"] == Phase.FAILED


async def test_a_verification_costs_few_events(staged: Staged) -> None:
    lengths = []
    for finding in (None, COMMITTED):
        plan = succeeds() if finding is None else is_lost()
        cluster = Cluster(plans=[plan], finding=finding or COMMITTED, start_is_seen_after=None)
        async with staged(cluster) as stage:
            handle = await stage.start()
            await result_of(handle)
            lengths.append(len((await handle.fetch_history()).events))
    assert lengths[1] - lengths[0] <= MAX_VERIFICATION_EVENTS


async def test_a_run_that_was_resumed_while_no_worker_was_there_continues_without_a_verification(
    staged: Staged,
) -> None:
    """The worker that had suspended it was killed, and its Pod left nothing to read. A verification
    may take minutes."""
    suspended = Verdict(
        kind=VerdictKind.SUSPENDED, reason=Reason.SUSPENDED, message="suspended", is_unclear=True
    )
    cluster = Cluster(plans=[Plan(verdict=suspended), succeeds()], verification_seconds=None)
    await staged.success(cluster)
    assert not cluster.verifications
    assert [job.request.attempt for job in cluster.jobs.values()] == [1, 1]
