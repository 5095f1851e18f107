"""The shim decides the same about a trimmed run as about the whole one, and a trimmed run is small."""

import json
from typing import Any

import pytest

from inferrun.kube.objects import Object
from inferrun.kube.runs import merge_patch
from inferrun.resources import parse_run
from operator_shim.decisions import decide, has_unacknowledged_edit, may_write_status
from operator_shim.trimming import trim_run

CONTRACT = "eyJ" + "a" * 50_000


def run_of(*, spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    identity = {"name": "run", "namespace": "team", "uid": "uid", "resourceVersion": "7", "generation": 2}
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {**identity, **metadata},
        "spec": {"configRef": {"name": "iris"}, "timeoutSeconds": 9, "parameters": {"a": "b" * 9000}, **(spec or {})},
        "status": status or {},
    }


LAUNCHED = {
    "phase": "Running",
    "reason": "Running",
    "message": "attempt 1 is running",
    "observedGeneration": 1,
    "contract": CONTRACT,
    "jobStatus": {"name": "run-1", "uid": "job"},
    "attempts": [{"launch": 1, "attempt": 1, "jobName": "run-1", "reason": "OutOfMemory"}],
}

RUNS = [
    run_of(),
    run_of(status={"phase": "Pending", "reason": "ConfigNotFound"}),
    run_of(status=LAUNCHED),
    run_of(status=LAUNCHED, annotations={"inferrun.dev/cancel-requested": "true", "other": "x"}),
    run_of(status=LAUNCHED, annotations={"krateo.io/paused": "true"}),
    run_of(status=LAUNCHED, deletionTimestamp="2026-11-21T08:00:00Z", finalizers=["other"]),
    run_of(status={**LAUNCHED, "phase": "Succeeded", "completionTime": "2026-11-21T08:00:00Z"}),
    run_of(status={"contract": CONTRACT, "jobStatus": {"name": "old"}}),
    run_of(spec={"schedule": "* * * * *"}, status={"phase": "Pending", "contract": CONTRACT}),
]


@pytest.mark.parametrize("run", RUNS)
def test_the_shim_decides_the_same_about_a_trimmed_run(run: Object) -> None:
    whole, trimmed = parse_run(run), parse_run(trim_run(run))
    assert decide(trimmed) == decide(whole)
    assert has_unacknowledged_edit(trimmed) == has_unacknowledged_edit(whole)
    assert may_write_status(trimmed) == may_write_status(whole)
    assert trimmed.ref == whole.ref
    assert trimmed.status.completion_time == whole.status.completion_time
    assert bool(trimmed.status.contract) == bool(whole.status.contract)


def test_a_run_with_a_contract_is_kept_small() -> None:
    assert len(json.dumps(trim_run(run_of(status=LAUNCHED, labels={"team": "x" * 60})))) < 600


def test_acknowledging_an_edit_of_a_trimmed_run_writes_nothing_else() -> None:
    run = parse_run(trim_run(run_of(status=LAUNCHED)))
    acknowledged = run.status.model_copy(update={"observed_generation": 2})
    assert merge_patch(run.status.to_manifest(), acknowledged.to_manifest()) == {"observedGeneration": 2}


def test_a_child_of_a_schedule_keeps_what_its_parent_is_found_by() -> None:
    labels = {"inferrun.dev/schedule-uid": "parent", "team": "x"}
    annotations = {"inferrun.dev/scheduled-time": "2026-11-21T08:00:00Z", "inferrun.dev/submitted-by": "wf"}
    owners = [{"kind": "InferenceRun", "name": "parent", "uid": "parent", "apiVersion": "ai.krateo.io/v1"}]
    run = trim_run(run_of(status=LAUNCHED, labels=labels, annotations=annotations, ownerReferences=owners))
    assert run["metadata"]["labels"] == {"inferrun.dev/schedule-uid": "parent"}
    assert run["metadata"]["annotations"] == annotations
    assert run["metadata"]["ownerReferences"] == owners
