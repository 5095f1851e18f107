"""What the signals about launches accept."""

import pytest

from workflows.signals import JOBS_LIMIT, Ended, LaunchSignals, Started


@pytest.mark.parametrize("told", ["", "soon", "2026-11-21T25:00:00Z", "0001-01-01T00:00:00+23:59"])
def test_a_start_without_a_valid_time_is_no_signal(told: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        Started.model_validate(
            {"job_uid": "job", "launch": 1, "pod_uid": "pod", "started_at": told}
        )


def test_signals_about_more_jobs_than_are_kept_displace_the_oldest() -> None:
    signals = LaunchSignals()
    for number in range(JOBS_LIMIT + 1):
        signals.add_ended(Ended(job_uid=f"job-{number}", launch=1, pod_uid=f"pod-{number}"))
    assert signals.take_ended(f"job-{JOBS_LIMIT}") == f"pod-{JOBS_LIMIT}"
    assert signals.take_ended("job-1") == "pod-1"
    assert signals.take_ended("job-0") is None
