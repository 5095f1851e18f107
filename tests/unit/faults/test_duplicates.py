"""Second Jobs and containers of one launch: which are permitted, and what is said about each."""

import pytest

from tests.faults.duplicates import (
    SeenContainer,
    SeenJob,
    SeenPod,
    container_duplicates,
    is_launch,
    job_duplicates,
)

FIRST = SeenContainer("pod-1", "job-1", started=10.0)


def test_one_job_and_one_container_need_no_explanation() -> None:
    assert job_duplicates([SeenJob("job-1", created=1.0, is_started=True)]) == []
    assert container_duplicates([FIRST], [SeenPod("pod-1", "job-1", created=9.0)]) == []


def test_a_late_job_that_was_never_started_is_permitted_and_named() -> None:
    [found] = job_duplicates(
        [SeenJob("job-2", created=4.0, removed=5.5), SeenJob("job-1", created=1.0, is_started=True, removed=3.0)]
    )
    assert not found.is_violation
    assert found.what == (
        "2 Jobs, 1 of them started: job-1 at 0.0 s (started, removed after 2.0 s), then job-2 at 3.0 s (never started, "
        "removed after 4.5 s)"
    )


def test_two_started_jobs_of_one_launch_are_a_violation() -> None:
    [found] = job_duplicates([SeenJob(uid, created=1.0, is_started=True) for uid in ("job-1", "job-2")])
    assert found.is_violation


@pytest.mark.parametrize(
    ("second", "created", "what", "is_violation"),
    [
        ("pod-2", 11.0, "Kubernetes created a Pod beside the first one", False),
        ("pod-2", 13.0, "a Pod that had ended was replaced", True),
        ("pod-1", 9.0, "one Pod executed twice", True),
    ],
)
def test_a_second_container_is_permitted_only_if_its_pod_was_created_beside_the_first(
    second: str, created: float, what: str, *, is_violation: bool
) -> None:
    pods = {"pod-1": SeenPod("pod-1", "job-1", created=9.0, ended=12.0, how="Failed 137")}
    pods.setdefault(second, SeenPod(second, "job-1", created=created))
    [found] = container_duplicates([FIRST, SeenContainer(second, "job-1", started=14.0)], list(pods.values()))
    assert found.is_violation is is_violation
    assert found.what.startswith(
        f"{what}: Pod pod-1 of Job job-1 at 0.0 s, created at -1.0 s (Failed 137 at 2.0 s), then"
    )


def test_containers_of_two_jobs_of_one_launch_are_a_violation() -> None:
    [found] = container_duplicates([FIRST, SeenContainer("pod-2", "job-2", started=14.0)], [])
    assert found.is_violation
    assert found.what.startswith("containers of several Jobs")


def test_the_verification_of_an_output_is_no_launch() -> None:
    assert is_launch("2")
    assert not is_launch("2 verified")
