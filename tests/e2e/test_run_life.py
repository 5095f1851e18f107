"""One run from its apply to its end, on a real node, through the chart."""

import json
from datetime import datetime

import pytest

from tests.e2e.stage import Object, Space, config, run, until


def _no_trace(space: Space, uid: str) -> bool:
    selector = f"inferrun.dev/run-uid={uid}"
    return not any(space.items(kind, selector) for kind in ("pods", "jobs", "configmaps"))


def _workflow_status(space: Space, workflow_id: str) -> str:
    shown = json.loads(
        space.stage.temporal("workflow", "describe", "-w", workflow_id, "-o", "json")
    )
    return str(shown["workflowExecutionInfo"]["status"])


def _workflow_id(space: Space, name: str) -> str:
    uid = _uid(space, name)
    return f"inferencerun/{space.name}/{name}/{uid}"


def _uid(space: Space, name: str) -> str:
    found = space.get("inferencerun", name)
    assert found is not None
    return str(found["metadata"]["uid"])


def _seconds(status: Object, start: str, end: str) -> float:
    return (
        datetime.fromisoformat(status[end]) - datetime.fromisoformat(status[start])
    ).total_seconds()


def test_an_image_that_only_reads_the_contract_succeeds(space: Space) -> None:
    space.apply(run("plain", "actor"))

    status = space.wait_for("plain", phase="Succeeded", seconds=60)

    assert status["exitCode"] == 0
    assert status["delivery"] == "Unknown"
    assert status["jobStatus"]["name"].startswith("inf-plain-")
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    summaries = ("Succeeded", "Finished", "Ready", "Synced")
    assert conditions == dict.fromkeys(
        (*summaries, "ContractWritten", "JobComplete", "OutputCommitted"), "True"
    )
    assert (
        _workflow_status(space, _workflow_id(space, "plain"))
        == "WORKFLOW_EXECUTION_STATUS_COMPLETED"
    )
    space.kubectl("wait", "inferencerun/plain", "--for=condition=Succeeded", "--timeout=5s")


def test_a_run_past_its_deadline_leaves_no_pod_even_if_it_ignores_sigterm(space: Space) -> None:
    space.apply(
        run("late", "actor", timeoutSeconds=5, parameters={"sleep": "600", "ignore": "yes"})
    )

    status = space.wait_for("late", phase="Failed", reason="DeadlineExceeded", seconds=60)

    assert _seconds(status, "startTime", "completionTime") <= 5 + 30
    assert not space.items("pods", f"inferrun.dev/run-uid={_uid(space, 'late')}")
    assert (
        _workflow_status(space, _workflow_id(space, "late")) == "WORKFLOW_EXECUTION_STATUS_FAILED"
    )


def test_a_run_with_a_missing_secret_resumes_once_it_is_copied(space: Space) -> None:
    stage = space.stage
    endpoint = {
        "api": {
            "path": "/x",
            "verb": "POST",
            "endpointRef": {"name": "data", "namespace": "default"},
        }
    }
    kserve = {"modelName": "m", "modelUrl": "http://nobody.invalid", "modelInputName": "i"}
    storage = {"input": {"krateo": endpoint}, "output": {"krateo": endpoint}}
    body = config("ours", kserve=kserve, storage=storage, backoffLimit=0)
    del body["spec"]["image"]
    space.apply(body, run("secretless", "ours"))
    status = space.wait_for("secretless", phase="Pending", reason="SecretNotFound", seconds=30)
    command = f"inferrun copy-secret data --from default --to {space.name}"
    assert status["message"].endswith(command)

    space.kubectl(
        "create", "secret", "generic", "data", "--from-literal=server-url=http://127.0.0.1:9"
    )

    status = space.wait_for("secretless", phase="Failed", seconds=150)
    assert status["reason"] == "InputFailed"  # it ran, and its data handler does not listen
    assert stage.ui_url in status["workflow"]["url"]


def test_exit_code_4_is_retried_up_to_the_backoff_limit_and_explained(space: Space) -> None:
    space.apply(
        run(
            "unlucky",
            "actor",
            backoffLimit=1,
            parameters={"exit": "4", "say": "the model is on fire"},
        )
    )

    status = space.wait_for("unlucky", phase="Failed", reason="InferenceFailed", seconds=90)

    assert status["exitCode"] == 4
    assert "the model server did not predict" in status["message"]
    assert "the model is on fire" in status["message"]
    assert [item["attempt"] for item in status["attempts"]] == [1, 2]
    assert len(space.items("jobs")) == 2


def test_deleting_a_running_run_leaves_nothing_behind(space: Space) -> None:
    space.apply(run("doomed", "actor", parameters={"sleep": "600"}))
    space.wait_for("doomed", phase="Running", seconds=60)
    uid, workflow = _uid(space, "doomed"), _workflow_id(space, "doomed")

    space.kubectl("delete", "inferencerun", "doomed")

    until(lambda: _no_trace(space, uid), seconds=30, what="no Pod, Job or ConfigMap")
    until(
        lambda: _workflow_status(space, workflow) == "WORKFLOW_EXECUTION_STATUS_CANCELED",
        seconds=60,
        what="the workflow is closed",
    )


NODE_SAYS: dict[str, tuple[Object, dict[str, str], str, str]] = {
    "the name of its image is invalid": (
        {"image": "Not/An:Image"},
        {},
        "Failed/InvalidImageName",
        "Not/An:Image",
    ),
    "its image does not exist": (
        {"image": "localhost/no/such:1"},
        {},
        "Pending/ImagePullFailed",
        "localhost/no/such:1",
    ),
    "it exceeds its memory limit": (
        {"resources": {"limits": {"memory": "40Mi"}}},
        {"memory": "200", "sleep": "1"},
        "Failed/OutOfMemory",
        "40Mi",
    ),
    "a ConfigMap that it mounts does not exist": (
        {"caBundle": {"configMapRef": {"name": "authorities"}}},
        {},
        "Pending/CABundleNotFound",
        "ConfigMap 'authorities' does not exist in namespace",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", NODE_SAYS)
def test_what_the_node_says_of_a_pod_is_in_the_status(space: Space, case: str) -> None:
    spec, parameters, state, words = NODE_SAYS[case]
    space.apply(config("odd", backoffLimit=0, **spec), run("odd", "odd", parameters=parameters))
    phase, _, reason = state.partition("/")
    assert words in space.wait_for("odd", phase=phase, reason=reason, seconds=120)["message"]
