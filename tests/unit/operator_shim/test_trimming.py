"""The shim decides the same about a trimmed run as about the whole one, and a trimmed run is
small."""

import json
from typing import Any

import pytest

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import merge_patch
from inferrun.reasons import Phase, Reason
from inferrun.resources import parse_run
from inferrun.run_status import ended_status
from inferrun.timestamps import parse
from operator_shim.run_plan import decide, has_unacknowledged_edit, may_write_status
from operator_shim.run_watch import CONTRACT as CONTRACT_STUB
from operator_shim.run_watch import trim_run
from tests.unit.launches import live_run
from tests.unit.objects import at

CONTRACT = "eyJ" + "a" * 50_000


def run_of(*, spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    identity = {
        "name": "run",
        "namespace": "team",
        "uid": "uid",
        "resourceVersion": "7",
        "generation": 2,
    }
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {**identity, **metadata},
        "spec": {
            "configRef": {"name": "iris"},
            "timeoutSeconds": 9,
            "parameters": {"a": "b" * 9000},
            **(spec or {}),
        },
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
    assert len(json.dumps(trim_run(run_of(status=LAUNCHED, labels={"team": "x" * 60})))) < 800


def test_acknowledging_an_edit_of_a_trimmed_run_writes_nothing_else() -> None:
    run = parse_run(trim_run(run_of(status=LAUNCHED)))
    acknowledged = run.status.model_copy(update={"observed_generation": 2})
    assert merge_patch(run.status.to_manifest(), acknowledged.to_manifest()) == {
        "observedGeneration": 2
    }


def test_a_child_of_a_schedule_keeps_what_its_parent_is_found_by() -> None:
    labels = {"inferrun.dev/schedule-uid": "parent", "team": "x"}
    annotations = {
        "inferrun.dev/scheduled-time": "2026-11-21T08:00:00Z",
        "inferrun.dev/submitted-by": "wf",
    }
    owners = [
        {"kind": "InferenceRun", "name": "parent", "uid": "parent", "apiVersion": "ai.krateo.io/v1"}
    ]
    run = trim_run(
        run_of(status=LAUNCHED, labels=labels, annotations=annotations, ownerReferences=owners)
    )
    assert run["metadata"]["labels"] == {"inferrun.dev/schedule-uid": "parent"}
    assert run["metadata"]["annotations"] == annotations
    assert run["metadata"]["ownerReferences"] == owners


def test_a_trimmed_run_can_be_parsed_and_keeps_the_times_of_its_conditions() -> None:
    conditions = [
        {
            "type": kind,
            "status": "Unknown",
            "reason": "Accepted",
            "message": "a" * 300,
            "lastTransitionTime": at(9),
        }
        for kind in ("Succeeded", "Finished", "Ready", "Synced")
    ]
    full = live_run(
        conditions=conditions, contract="x" * 10_000, startTime=at(0), records={"total": 9}
    )
    trimmed = trim_run(full)
    before, after = parse_run(full), parse_run(trimmed)
    assert after.status.job_status == before.status.job_status
    assert after.status.start_time == before.status.start_time
    assert after.status.records == before.status.records
    assert [one.last_transition_time for one in after.status.conditions] == [
        one.last_transition_time for one in before.status.conditions
    ]
    assert after.metadata.resource_version == before.metadata.resource_version
    assert after.status.contract == CONTRACT_STUB


def test_an_outcome_that_is_written_from_a_trimmed_run_is_the_same() -> None:
    """The patch against a trimmed run changes the whole one to what would have been written from
    that."""
    condition = {
        "type": "Finished",
        "status": "False",
        "reason": "Running",
        "lastTransitionTime": at(60),
    }
    run = live_run(
        phase="Running",
        reason="Running",
        message="attempt 1 is running",
        startTime=at(60),
        runningSince=at(60),
        attempt=1,
        contract="e30=",
        workflow={"id": "inferencerun/team/run", "runId": "1"},
        records={"total": 5, "completed": 1, "failed": 0},
        conditions=[condition],
    )

    def ended(item: Object) -> tuple[Object, Object]:
        before = parse_run(item)
        after = ended_status(
            before,
            phase=Phase.SUCCEEDED,
            reason=Reason.SUCCEEDED,
            message="done",
            now=parse("2026-11-21T08:01:00Z"),
            records={"total": 5, "completed": 5, "failed": 0},
        )
        return before.status.to_manifest(), after.to_manifest()

    trimmed = trim_run(json.loads(json.dumps(run)))
    patch = merge_patch(*ended(trimmed))
    whole, wanted = ended(run)
    patched = {key: value for key, value in {**whole, **patch}.items() if value is not None}
    assert {**patched, "records": {**whole["records"], **patch["records"]}} == wanted
    assert "runningSince" not in wanted


def test_a_run_keeps_what_the_writers_of_its_status_must_know() -> None:
    """A field that the cached run lacks would not be removed, and a scheduled run be taken for a
    single one."""
    run = live_run(phase="Running", runningSince=at(0), endedLaunches=2)
    owner = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": "daily",
        "uid": "u",
        "controller": True,
    }
    run["metadata"] |= {
        "ownerReferences": [owner],
        "labels": {wellknown.LABEL_SCHEDULE_UID: "u", "other": "x"},
    }
    trimmed = trim_run(run)
    assert (trimmed["status"]["runningSince"], trimmed["status"]["endedLaunches"]) == (at(0), 2)
    assert parse_run(trimmed).schedule_owner is not None
