"""Second Jobs and containers of one launch: which are permitted, and what is said about each."""

import pytest

from campaigns.faults.duplicates import (
    SeenContainer,
    SeenJob,
    SeenPod,
    container_duplicates,
    job_duplicates,
)

FIRST = SeenContainer("pod-1", "job-1", started=10.0)
STARTED = SeenJob("job-1", created=1.0, is_started=True, removed=3.0)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            SeenJob("job-2", created=4.0, removed=5.5),
            "then job-2 at 3.0 s (never started, removed after 4.5 s)",
        ),
        (SeenJob("job-2", created=4.0, is_started=True), "2 of them started"),
    ],
)
def test_a_late_job_is_permitted_only_if_it_was_never_started(second: SeenJob, said: str) -> None:
    assert job_duplicates([STARTED]) == []
    [found] = job_duplicates([second, STARTED])
    assert found.is_violation is second.is_started
    assert said in found.what


@pytest.mark.parametrize(
    ("second", "job", "created", "what", "is_violation"),
    [
        ("pod-2", "job-1", 11.0, "Kubernetes created a Pod beside the first one", False),
        ("pod-2", "job-1", 13.0, "a Pod that had ended was replaced", True),
        ("pod-1", "job-1", 9.0, "one Pod executed twice", True),
        ("pod-2", "job-2", 9.0, "containers of several Jobs", True),
    ],
)
def test_a_second_container_is_permitted_only_if_its_pod_was_created_beside_the_first(
    second: str, job: str, created: float, what: str, *, is_violation: bool
) -> None:
    pods = {"pod-1": SeenPod("pod-1", "job-1", created=9.0, ended=12.0, how="Failed 137")}
    pods.setdefault(second, SeenPod(second, job, created=created))
    assert container_duplicates([FIRST], [pods["pod-1"]]) == []
    [found] = container_duplicates(
        [FIRST, SeenContainer(second, job, started=14.0)], list(pods.values())
    )
    assert (found.is_violation, found.what.startswith(what)) == (is_violation, True), found.what
