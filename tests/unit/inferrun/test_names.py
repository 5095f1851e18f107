"""Names are pure functions; the base name of a Job follows the Krateo controller's rule exactly."""

import re

import pytest

from inferrun.names import (
    cleanup_workflow_id,
    job_base_name,
    job_name,
    run_workflow_id,
    scheduled_run_name,
    submitted_run_name,
    verify_job_name,
)
from inferrun.run_ref import RunRef

UID = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("My.Run..v2", "inf-my-run-v2-5be07ada"),
        ("iris", "inf-iris-5be07ada"),
        ("a", "inf-a-5be07ada"),
        ("trailing.-", "inf-trailing-5be07ada"),
        ("x" * 60, f"inf-{'x' * 49}-5be07ada"),
        (f"{'x' * 48}-yyy", f"inf-{'x' * 48}-5be07ada"),
        (f"{'x' * 47}---yyy", f"inf-{'x' * 47}-y-5be07ada"),
        (f"{'x' * 49}-yyy", f"inf-{'x' * 49}-5be07ada"),
    ],
    ids=[
        "the documented example",
        "short",
        "one letter",
        "ends with other characters",
        "60 characters",
        "a dash at the limit",
        "dashes are collapsed before truncation",
        "a dash after the limit",
    ],
)
def test_the_base_name_follows_the_rule(run: str, expected: str) -> None:
    assert job_base_name(run, UID) == expected
    assert len(expected) <= 62
    assert job_base_name(run, "5B-e0_7a.da5-9999") == expected, (
        "only letters and digits of the UID count"
    )


@pytest.mark.parametrize("run", ["iris", "x" * 60, f"{'x' * 40}.{'y' * 200}"])
@pytest.mark.parametrize("launch", [1, 2, 9, 10, 99, 12_345])
def test_the_name_of_a_job_is_a_label_of_at_most_63_characters(run: str, launch: int) -> None:
    name = job_name(job_base_name(run, UID), launch)
    assert len(name) <= 63
    assert DNS_LABEL.fullmatch(name)


def test_every_launch_has_its_own_name_and_the_first_has_the_base_name() -> None:
    base = job_base_name("x" * 60, UID)
    names = [job_name(base, launch) for launch in range(1, 200)]
    assert names[0] == base
    assert names[1] == f"inf-{'x' * 49}-5be07ad-2"
    assert job_name(f"{'a' * 60}-b", 2) == f"{'a' * 60}-2", "no dash is left before the launch"
    assert len(set(names)) == len(names)


def test_workflow_ids_contain_the_uid() -> None:
    first = run_workflow_id(RunRef(namespace="models", name="iris", uid=UID))
    assert first == f"inferencerun/models/iris/{UID}"
    assert cleanup_workflow_id(first) == f"{first}/cleanup"


def test_a_submission_id_that_is_a_valid_name_becomes_the_name_of_the_run() -> None:
    assert submitted_run_name("january.2026-eu") == "january.2026-eu"


@pytest.mark.parametrize("workflow_id", ["January 2026", "a/b:c", "x" * 300, "ÄÖ", "-", "UPPER"])
def test_any_other_submission_id_becomes_a_readable_name_with_a_hash(workflow_id: str) -> None:
    name = submitted_run_name(workflow_id)
    assert name != submitted_run_name(f"{workflow_id}/")
    assert len(name) <= 253
    assert re.fullmatch(r"[a-z0-9][-a-z0-9]*-[0-9a-f]{10}", name)


def test_a_scheduled_run_is_named_after_its_schedule_and_nominal_time() -> None:
    assert scheduled_run_name("nightly", "2026-11-21T03:00:00Z") == "nightly-20261121030000"


def test_runs_of_two_schedules_with_long_names_have_different_names() -> None:
    first, second = (
        scheduled_run_name("x" * 250 + end, "2026-11-21T03:00:00Z") for end in ("aa", "bb")
    )
    assert first != second
    assert max(len(first), len(second)) <= 253


@pytest.mark.parametrize("run", ["iris", "a" * 200])
def test_a_verifying_job_has_a_name_of_its_own(run: str) -> None:
    base = job_base_name(run, UID)
    names = [
        verify_job_name(base, launch, is_final=is_final)
        for launch in range(1, 50)
        for is_final in (True, False)
    ]
    launches = {job_name(base, launch) for launch in range(1, 50)}
    assert len(set(names)) == len(names)
    assert not launches & set(names)
    assert all(len(name) <= 63 and UID[:8] in name for name in names)
