"""Which runs are kept for their launch, and for how long."""

from typing import Any

import pytest

from activities.cluster.new_runs import NewRuns, is_new
from inferrun.kube.objects import Object
from inferrun.run_ref import RunRef


def run_of(name: str = "run", *, status: Object | None = None, **metadata: Any) -> Object:
    identity = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {**identity, **metadata},
        "spec": {"configRef": {"name": "iris"}, "parameters": {"table": "iris"}},
        "status": status or {},
    }


def ref_of(run: Object) -> RunRef:
    return RunRef.model_validate(run["metadata"])


def test_a_new_run_is_kept_whole_with_the_time_at_which_it_was_first_seen() -> None:
    runs = NewRuns()
    runs.observe(run_of(), now=5.0)
    runs.observe(run_of(status={"phase": "Pending", "reason": "Accepted"}), now=6.0)
    found = runs.find(ref_of(run_of()))
    assert found is not None
    assert found.seen_at == 5.0
    assert found.run.spec.parameters == {"table": "iris"}
    assert found.run.status.reason == "Accepted"


def test_a_run_that_waits_is_kept_whole_without_the_time_and_without_its_managed_fields() -> None:
    runs = NewRuns()
    runs.observe(run_of(), now=5.0)
    waits = {"phase": "Pending", "reason": "ModelNotReady", "message": "it is stopped", "observedGeneration": 2}
    runs.observe(run_of(status=waits, generation=2, managedFields=[{"manager": "kubectl"}]), now=6.0)
    found = runs.find(ref_of(run_of()))
    assert found is not None
    assert found.seen_at is None
    assert (found.run.metadata.generation, found.run.spec.parameters) == (2, {"table": "iris"})
    assert found.run.status.message == "it is stopped"


@pytest.mark.parametrize(
    "run",
    [
        run_of(status={"phase": "Pending", "reason": "JobCreated", "contract": "e30="}),
        run_of(status={"phase": "Succeeded", "reason": "Succeeded"}),
        run_of(status={"phase": "Suspended", "reason": "Suspended"}),
        run_of(deletionTimestamp="2026-11-21T08:00:00Z"),
        run_of(annotations={"inferrun.dev/cancel-requested": "true"}),
        {**run_of(), "spec": {"configRef": {"name": "iris"}, "schedule": "* * * * *"}},
    ],
)
def test_a_run_that_needs_more_than_a_first_launch_is_forgotten(run: Object) -> None:
    runs = NewRuns()
    runs.observe(run_of(), now=5.0)
    runs.observe(run, now=6.0)
    assert not is_new(run)
    assert runs.find(ref_of(run)) is None


def test_another_run_of_the_same_name_is_not_found() -> None:
    runs = NewRuns()
    runs.observe(run_of(), now=5.0)
    assert runs.find(RunRef(namespace="team", name="run", uid="another")) is None


def test_the_oldest_runs_are_forgotten_beyond_the_limit() -> None:
    runs = NewRuns(bytes_limit=3_000)
    many = [run_of(f"run-{number}") for number in range(50)]
    for run in many:
        runs.observe(run, now=5.0)
    kept = [run["metadata"]["name"] for run in many if runs.find(ref_of(run)) is not None]
    assert kept == [f"run-{number}" for number in range(50 - len(kept), 50)]
    assert 5 < len(kept) < 20
