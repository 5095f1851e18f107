"""What is remembered of Pods that ended is bounded in number and age."""

from dataclasses import replace

from activities.rules.pod_end import PodEnd
from activities.rules.trimming import CONTROLLER_UID_LABEL
from tests.unit.launches import JOB_UID, live_pod, running
from tests.unit.objects import at, terminated
from worker.observer.workload_watch import OrphanedPods, PodEnds


def end(number: int, *, job: str = "job", code: int | None = 0) -> PodEnd:
    return PodEnd(f"pod-{number}", f"pod-{number}", job, exit_code=code)


def test_ends_are_found_by_their_job() -> None:
    ends = PodEnds()
    for number, job in enumerate(("a", "b", "a")):
        ends.add(end(number, job=job), now=0)
    assert [one.pod_uid for one in ends.of("a")] == ["pod-0", "pod-2"]
    assert ends.of("c") == ()


def test_the_oldest_end_is_forgotten_beyond_the_limit() -> None:
    ends = PodEnds(limit=2)
    for number in range(3):
        ends.add(end(number), now=number)
    assert [one.pod_uid for one in ends.of("job")] == ["pod-1", "pod-2"]
    assert not ends.has("pod-0")


def test_an_old_end_is_forgotten() -> None:
    ends = PodEnds(seconds=10)
    ends.add(end(0, job="old"), now=0)
    ends.add(end(1), now=5)
    ends.add(end(2), now=11)
    assert ends.of("old") == ()
    assert [one.pod_uid for one in ends.of("job")] == ["pod-1", "pod-2"]


def test_an_end_that_says_more_replaces_one_that_says_less_and_not_the_reverse() -> None:
    ends = PodEnds()
    for code in (None, 3, None):
        ends.add(end(0, code=code), now=0)
    assert [one.exit_code for one in ends.of("job")] == [3]


def test_the_latest_ends_keep_their_messages_and_those_of_deleted_pods_always_do() -> None:
    ends = PodEnds(messages_limit=1)
    deleted = PodEnd("pod-1", "pod-1", "job", exit_code=0, message="result", is_deleted=True)
    for one in (deleted, replace(deleted, pod_uid="pod-2", is_deleted=False), replace(deleted, pod_uid="pod-3")):
        ends.add(one, now=0)
    assert [end.message for end in ends.of("job")] == ["result", "", "result"]


def test_pods_that_a_job_left_behind_are_known_until_they_have_ended() -> None:
    orphans, labels = OrphanedPods(limit=2), {CONTROLLER_UID_LABEL: JOB_UID}
    left, owned = live_pod(running(at(9)), owner=None, labels=labels), live_pod(uid="pod-b", labels=labels)
    for pod in (left, owned, live_pod(uid="pod-c", owner=None, labels={})):
        orphans.observe(pod)
    assert orphans.of(JOB_UID) == ({"metadata": {"name": left["metadata"]["name"], "uid": "pod-a"}},)
    assert orphans.of("another") == ()
    ended = live_pod(terminated(0), phase="Succeeded", owner=None, labels=labels)
    for gone in (ended, live_pod(owner=None, labels=labels, deletionTimestamp=at(0))):
        orphans.observe(left)
        orphans.observe(gone)
        assert orphans.of(JOB_UID) == ()


def test_planted_orphans_are_remembered_up_to_a_limit() -> None:
    orphans = OrphanedPods(limit=2)
    for number in range(5):
        orphans.observe(live_pod(uid=f"pod-{number}", owner=None, labels={CONTROLLER_UID_LABEL: JOB_UID}))
    assert [pod["metadata"]["uid"] for pod in orphans.of(JOB_UID)] == ["pod-3", "pod-4"]
