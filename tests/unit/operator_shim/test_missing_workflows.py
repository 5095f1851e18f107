"""Which runs the sweep expects to have a workflow."""

import pytest

from inferrun.kube.objects import Object
from operator_shim.sweep import has_workflow

NOW = "2026-11-21T09:00:00Z"


def run(*, created: str = "2026-11-21T08:00:00Z", **status: str) -> Object:
    return {"metadata": {"creationTimestamp": created}, "spec": {}, "status": status}


@pytest.mark.parametrize("reason", ["Accepted", "JobCreated", "QuotaExceeded", "ConfigNotFound"])
def test_a_run_that_was_accepted_has_a_workflow(reason: str) -> None:
    assert has_workflow(run(phase="Pending", reason=reason), created_before=NOW)


@pytest.mark.parametrize("reason", ["InvalidSpec", "InvalidTimeZone", "TooManyActiveRuns"])
def test_a_run_that_is_rejected_or_not_admitted_yet_has_none(reason: str) -> None:
    assert not has_workflow(run(phase="Pending", reason=reason), created_before=NOW)
