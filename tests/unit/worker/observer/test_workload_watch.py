"""What is remembered of Pods that ended is bounded in number and age."""

from dataclasses import replace

from activities.rules.pod_end import PodEnd
from worker.observer.workload_watch import PodEnds


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
