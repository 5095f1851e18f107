"""What the signals about launches accept."""

import pytest

from workflows.signals import Started


@pytest.mark.parametrize("told", ["", "soon", "2026-11-21T25:00:00Z", "0001-01-01T00:00:00+23:59"])
def test_a_start_without_a_valid_time_is_no_signal(told: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        Started.model_validate({"job_uid": "job", "launch": 1, "pod_uid": "pod", "started_at": told})
