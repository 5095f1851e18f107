"""Pods that are taken away within a launch, and nodes that are lost: listed, and not counted as
attempts."""

import pytest

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from tests.workflow.cluster import Cluster, Plan, succeeds
from tests.workflow.stage import Staged
from workflows.signals import ENDED_SIGNAL

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODE_LOST = Verdict(
    kind=VerdictKind.NODE_LOST, reason=Reason.NODE_LOST, message="node-1 does not respond"
)


def on_a_lost_node(*, seconds: int = 40) -> Plan:
    """A Pod whose node is lost so many seconds after its start."""
    return Plan(ends_after=seconds, verdict=NODE_LOST, must_stop=True)


async def test_a_lost_node_is_fenced_off_without_grace_and_without_counting_an_attempt(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[on_a_lost_node(), succeeds()], backoff_limit=0)
    await staged.success(cluster)
    first, second = cluster.jobs.values()
    assert (first.grace, second.request.attempt, second.request.launch) == (0, 1, 2)
    assert [(item.reason, item.replaced) for item in second.request.attempts] == [
        ("NodeLost", None)
    ]


async def test_the_time_on_a_lost_node_counts_until_it_stopped_responding(staged: Staged) -> None:
    cluster = Cluster(
        plans=[on_a_lost_node(seconds=40), Plan(ends_after=None)], timeout_seconds=100
    )
    assert (await staged.failure(cluster)).type == "DeadlineExceeded"
    _, second = cluster.jobs.values()
    assert second.request.seconds_used == pytest.approx(40, abs=2)


DELETED = Verdict(
    kind=VerdictKind.DISRUPTED, reason=Reason.DISRUPTED, message="the Pod was deleted", exit_code=2
)


async def test_a_launch_whose_pod_was_deleted_is_followed_by_another_one_without_counting(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(verdict=DELETED), succeeds()], backoff_limit=0)
    await staged.success(cluster)
    _, second = cluster.jobs.values()
    assert (second.request.attempt, second.request.launch) == (1, 2)
    assert [(item.reason, item.exit_code) for item in second.request.attempts] == [("Disrupted", 2)]


@pytest.mark.parametrize(
    "plan", [on_a_lost_node(), Plan(verdict=DELETED)], ids=["nodes-lost", "pods-deleted"]
)
async def test_a_run_whose_pods_are_taken_too_often_fails(staged: Staged, plan: Plan) -> None:
    cluster = Cluster(plans=[plan], max_disruptions=2, backoff_limit=9)
    assert (await staged.failure(cluster)).type == "DisruptedTooOften"
    assert len(cluster.jobs) == 3


async def test_the_job_of_a_success_is_deleted_if_other_containers_keep_it_from_ending(
    staged: Staged,
) -> None:
    held = Verdict(
        kind=VerdictKind.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        message="150",
        exit_code=0,
        is_held_open=True,
    )
    for plan, names in (
        (Plan(verdict=held), ("inf-iris-1", "uid-inf-iris-1")),
        (succeeds(), ("", "")),
    ):
        cluster = Cluster(plans=[plan])
        await staged.success(cluster)
        assert (cluster.outcome.held_job_name, cluster.outcome.held_job_uid) == names


async def test_replaced_pods_are_published_and_listed_with_their_launch(staged: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(taken_after=10, disruptions=2)], backoff_limit=0, timeout_seconds=1000
    )
    await staged.success(cluster)
    assert [(item.reason, len(item.attempts), item.warning) for item in cluster.published] == [
        (Reason.DISRUPTED, 1, True),
        (Reason.DISRUPTED, 2, True),
    ]
    assert [
        (item.launch, item.attempt, item.replaced, item.pod_name)
        for item in cluster.outcome.attempts
    ] == [
        (1, 1, True, "inf-iris-1-pod-0"),
        (1, 1, True, "inf-iris-1-pod-1"),
        (1, 1, None, None),
    ]


async def test_the_loss_of_a_pod_that_is_signalled_twice_is_listed_and_counted_once(
    staged: Staged,
) -> None:
    cluster = Cluster(
        plans=[Plan(taken_after=10, disruptions=1, starts_after=20, ends_after=100)],
        timeout_seconds=1000,
        max_disruptions=1,
    )
    async with staged.run(cluster, seconds=35) as stage:
        [job] = cluster.jobs.values()
        again = {"job_uid": job.uid, "launch": 1, "pod_uid": "inf-iris-1-pod-0"}
        await stage.handle.signal(ENDED_SIGNAL, again)
        assert (await stage.handle.result())["phase"] == "Succeeded"
    assert [item.replaced for item in cluster.outcome.attempts] == [True, None]


async def test_the_claimed_loss_of_a_pod_that_nobody_knows_is_not_listed(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=100)], timeout_seconds=1000)
    async with staged.run(cluster, seconds=1) as stage:
        [job] = cluster.jobs.values()
        await stage.handle.signal(
            ENDED_SIGNAL, {"job_uid": job.uid, "launch": 1, "pod_uid": "forged"}
        )
        assert (await stage.handle.result())["phase"] == "Succeeded"
    assert [item.replaced for item in cluster.outcome.attempts] == [None]
