"""The models read every stored object, whichever version wrote it, and write what the API server
accepts."""

from datetime import UTC, datetime

import pytest

from inferrun.reasons import Phase
from inferrun.resources import (
    Attempt,
    InferenceRunStatus,
    parse_config,
    parse_run,
)

RUN = {
    "apiVersion": "ai.krateo.io/v1",
    "kind": "InferenceRun",
    "metadata": {
        "name": "january",
        "namespace": "models",
        "uid": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
        "generation": 2,
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T08:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"configRef": {"name": "iris"}, "timeoutSeconds": 60, "parameters": {"table": "a"}},
}


def config(**spec: object) -> dict[str, object]:
    return {"metadata": {"name": "iris", "namespace": "models"}, "spec": {"storage": {}, **spec}}


def test_the_config_is_in_the_runs_namespace_unless_another_one_is_named() -> None:
    assert parse_run(RUN).config_namespace == "models"
    elsewhere = RUN | {"spec": {"configRef": {"name": "iris", "namespace": "shared"}}}
    assert parse_run(elsewhere).config_namespace == "shared"


def test_a_run_whose_status_is_null_has_no_phase() -> None:
    assert parse_run(RUN | {"status": None}).status.phase is None


def test_a_status_of_the_krateo_controller_is_parsed() -> None:
    older = {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Available",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "contract": "eyJqb2JJZCI6IjEifQ==",
        "jobStatus": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "inf-january-5be07ada",
            "namespace": "models",
        },
    }
    status = parse_run(RUN | {"status": older}).status
    assert status.phase is None
    assert not status.is_terminal
    assert status.job_status is not None
    assert status.job_status.name == "inf-january-5be07ada"


def test_unknown_keys_of_a_newer_definition_are_ignored() -> None:
    newer = RUN | {
        "spec": {"configRef": {"name": "iris"}, "shards": 4},
        "status": {"phase": "Running", "shard": []},
    }
    assert parse_run(newer).status.phase is Phase.RUNNING


def test_a_run_is_paused_only_if_its_annotation_is_true() -> None:
    metadata = {"name": "january", "namespace": "models"}
    paused = {
        "metadata": metadata | {"annotations": {"krateo.io/paused": "true"}},
        "spec": RUN["spec"],
    }
    running = {
        "metadata": metadata | {"annotations": {"krateo.io/paused": "false"}},
        "spec": RUN["spec"],
    }
    assert parse_run(paused).is_paused
    assert not parse_run(running).is_paused


def test_a_storage_object_is_preserved_as_written() -> None:
    free_form = {"custom": {"s3": {"More-Custom": [1, {"a": None}], "endpointRef": {"name": "x"}}}}
    spec = parse_config(config(storage={"output": free_form})).spec
    assert spec.storage.output == free_form
    assert spec.to_manifest()["storage"]["output"] == free_form


def test_an_unset_field_stays_unset() -> None:
    assert parse_config(config()).spec.to_manifest() == {"storage": {}}
    assert parse_run(
        {"metadata": {"name": "a"}, "spec": {"configRef": {"name": "b"}}}
    ).spec.to_manifest() == {"configRef": {"name": "b"}}


def test_a_status_is_written_as_kubernetes_does() -> None:
    status = InferenceRunStatus(
        phase=Phase.RUNNING,
        start_time=datetime(2026, 11, 21, 8, 0, 0, 999, tzinfo=UTC),
        attempts=(Attempt(launch=1, attempt=1, job_name="inf-january-5be07ada", exit_code=4),),
    )
    assert status.to_manifest() == {
        "phase": "Running",
        "startTime": "2026-11-21T08:00:00Z",
        "attempts": [{"launch": 1, "attempt": 1, "jobName": "inf-january-5be07ada", "exitCode": 4}],
        "conditions": [],
        "nextScheduleTimes": [],
        "active": [],
    }


def test_a_long_message_is_truncated_instead_of_rejected() -> None:
    message = InferenceRunStatus(message="line\nafter line " * 1000).message
    assert message is not None
    assert len(message) == 2048
    assert "\n" not in message


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_only_success_and_failure_are_terminal(phase: Phase) -> None:
    assert InferenceRunStatus(phase=phase).is_terminal
    assert not any(
        InferenceRunStatus(phase=other).is_terminal
        for other in set(Phase) - {"Succeeded", "Failed"}
    )
