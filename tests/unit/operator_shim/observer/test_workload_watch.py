"""What is remembered of Pods that ended is bounded."""

from control.launches.pod_end import PodEnd
from operator_shim.observer.workload_watch import PODS_LIMIT, PodEnds


def end(number: int, *, job: str = "job", code: int | None = 0) -> PodEnd:
    return PodEnd(f"pod-{number}", f"pod-{number}", job, exit_code=code)


def test_ends_are_found_by_their_job() -> None:
    ends = PodEnds()
    for number, job in enumerate(("a", "b", "a")):
        ends.add(end(number, job=job))
    assert [one.pod_uid for one in ends.of("a")] == ["pod-0", "pod-2"]
    assert ends.of("c") == ()


def test_the_ends_of_the_oldest_job_are_forgotten_beyond_the_limit() -> None:
    ends = PodEnds(limit=2)
    for number in range(3):
        ends.add(end(number, job=f"job-{number}"))
    assert [len(ends.of(f"job-{number}")) for number in range(3)] == [0, 1, 1]


def test_the_oldest_ends_of_a_job_with_planted_pods_are_forgotten() -> None:
    ends = PodEnds()
    for number in range(PODS_LIMIT + 1):
        ends.add(end(number))
    assert len(ends.of("job")) == PODS_LIMIT
    assert ends.of("job")[-1].pod_uid == f"pod-{PODS_LIMIT}"


def test_an_end_that_says_more_replaces_one_that_says_less_and_not_the_reverse() -> None:
    ends = PodEnds()
    for code in (None, 3, None):
        ends.add(end(0, code=code))
    assert [one.exit_code for one in ends.of("job")] == [3]
