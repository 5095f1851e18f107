"""One run from its apply to its end, on a real node, through the chart."""

import json
from datetime import datetime

import pytest

from tests.e2e.stage import Object, Space, config, run, until


def _no_trace(space: Space, uid: str) -> bool:
    selector = f"inferrun.dev/run-uid={uid}"
    return not any(space.items(kind, selector) for kind in ("pods", "jobs", "configmaps"))


def _workflow_status(space: Space, workflow_id: str) -> str:
    shown = json.loads(space.stage.temporal("workflow", "describe", "-w", workflow_id, "-o", "json"))
    return str(shown["workflowExecutionInfo"]["status"])


def _workflow_id(space: Space, name: str) -> str:
    uid = _uid(space, name)
    return f"inferencerun/{space.name}/{name}/{uid}"


def _uid(space: Space, name: str) -> str:
    found = space.get("inferencerun", name)
    assert found is not None
    return str(found["metadata"]["uid"])


def _seconds(status: Object, start: str, end: str) -> float:
    return (datetime.fromisoformat(status[end]) - datetime.fromisoformat(status[start])).total_seconds()


def test_an_image_that_only_reads_the_contract_succeeds(space: Space) -> None:
    space.apply(run("plain", "actor"))

    status = space.wait_for("plain", phase="Succeeded", seconds=60)

    assert status["exitCode"] == 0
    assert status["delivery"] == "Unknown"
    assert status["jobStatus"]["name"].startswith("inf-plain-")
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    summaries = ("Succeeded", "Finished", "Ready", "Synced")
    assert conditions == dict.fromkeys((*summaries, "ContractWritten", "JobComplete", "OutputCommitted"), "True")
    assert _workflow_status(space, _workflow_id(space, "plain")) == "WORKFLOW_EXECUTION_STATUS_COMPLETED"
    space.kubectl("wait", "inferencerun/plain", "--for=condition=Succeeded", "--timeout=5s")


def test_a_run_past_its_deadline_leaves_no_pod_even_if_it_ignores_sigterm(space: Space) -> None:
    space.apply(run("late", "actor", timeoutSeconds=5, parameters={"sleep": "600", "ignore": "yes"}))

    status = space.wait_for("late", phase="Failed", reason="DeadlineExceeded", seconds=60)

    assert _seconds(status, "startTime", "completionTime") <= 5 + 30
    assert not space.items("pods", f"inferrun.dev/run-uid={_uid(space, 'late')}")
    assert _workflow_status(space, _workflow_id(space, "late")) == "WORKFLOW_EXECUTION_STATUS_FAILED"


@pytest.mark.thorough
def test_an_invalid_image_name_fails_immediately(space: Space) -> None:
    space.apply(config("crooked", image="Not/An:Image:Name"), run("crooked", "crooked"))

    status = space.wait_for("crooked", phase="Failed", reason="InvalidImageName", seconds=30)

    assert "Not/An:Image:Name" in status["message"]
    until(
        lambda: not space.items("pods", f"inferrun.dev/run-uid={_uid(space, 'crooked')}"),
        seconds=60,
        what="no Pod left",
    )


def test_a_run_with_a_missing_secret_resumes_once_it_is_copied(space: Space) -> None:
    stage = space.stage
    endpoint = {"api": {"path": "/x", "verb": "POST", "endpointRef": {"name": "data", "namespace": "default"}}}
    kserve = {"modelName": "m", "modelUrl": "http://nobody.invalid", "modelInputName": "i"}
    storage = {"input": {"krateo": endpoint}, "output": {"krateo": endpoint}}
    body = config("ours", kserve=kserve, storage=storage, backoffLimit=0)
    del body["spec"]["image"]
    space.apply(body, run("secretless", "ours"))
    status = space.wait_for("secretless", phase="Pending", reason="SecretNotFound", seconds=30)
    command = f"inferrun copy-secret data --from default --to {space.name}"
    assert status["message"].endswith(command)

    space.kubectl("create", "secret", "generic", "data", "--from-literal=server-url=http://127.0.0.1:9")

    status = space.wait_for("secretless", phase="Failed", seconds=150)
    assert status["reason"] == "InputFailed"  # it ran, and its data handler does not listen
    assert stage.ui_url in status["workflow"]["url"]


def test_exit_code_4_is_retried_up_to_the_backoff_limit_and_explained(space: Space) -> None:
    space.apply(run("unlucky", "actor", backoffLimit=1, parameters={"exit": "4", "say": "the model is on fire"}))

    status = space.wait_for("unlucky", phase="Failed", reason="InferenceFailed", seconds=90)

    assert status["exitCode"] == 4
    assert "the model server did not predict" in status["message"]
    assert "the model is on fire" in status["message"]
    assert [item["attempt"] for item in status["attempts"]] == [1, 2]
    assert len(space.items("jobs")) == 2


@pytest.mark.thorough
def test_a_container_that_exceeds_its_memory_limit_is_reported(space: Space) -> None:
    space.apply(
        config("small", backoffLimit=0, resources={"limits": {"memory": "40Mi"}}),
        run("hungry", "small", parameters={"memory": "200", "sleep": "1"}),
    )

    status = space.wait_for("hungry", phase="Failed", reason="OutOfMemory", seconds=60)

    assert "40Mi" in status["message"]


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


def test_cancelling_the_workflow_ends_the_run_and_its_pod(space: Space) -> None:
    space.apply(run("unwanted", "actor", parameters={"sleep": "600"}))
    space.wait_for("unwanted", phase="Running", seconds=60)

    space.stage.temporal("workflow", "cancel", "-w", _workflow_id(space, "unwanted"))

    space.wait_for("unwanted", phase="Failed", reason="Cancelled", seconds=40)
    assert not space.items("pods", f"inferrun.dev/run-uid={_uid(space, 'unwanted')}")


@pytest.mark.thorough
@pytest.mark.alone
def test_a_finished_run_is_never_executed_again(space: Space) -> None:
    space.apply(run("once", "actor"))
    status = space.wait_for("once", phase="Succeeded", seconds=60)

    space.kubectl("delete", "job", status["jobStatus"]["name"])
    space.kubectl("annotate", "inferencerun", "once", "touched=yes")
    space.stage.kubectl("-n", "inferrun-system", "rollout", "restart", "deployment/inferrun-shim")
    space.stage.kubectl(
        "-n", "inferrun-system", "rollout", "status", "deployment/inferrun-shim", "--timeout=60s", seconds=70
    )

    space.apply(run("marker", "actor"))
    space.wait_for("marker", phase="Succeeded", seconds=60)
    jobs = [item["metadata"]["name"] for item in space.items("jobs")]
    assert all(name.startswith("inf-marker-") for name in jobs), jobs
    assert space.status("once")["completionTime"] == status["completionTime"]


@pytest.mark.thorough
def test_a_container_that_finishes_just_before_its_deadline_succeeds(space: Space) -> None:
    names = [f"close-{tenth}" for tenth in range(6)]
    runs = [
        run(name, "actor", timeoutSeconds=8, parameters={"sleep": str(4 + 0.4 * tenth)})
        for tenth, name in enumerate(names)
    ]

    space.apply(*runs)  # the Job's own word comes a second or two after its container's end

    for name in names:
        status = space.wait_for(name, phase="Succeeded", seconds=60)
        assert status["exitCode"] == 0


@pytest.mark.thorough
def test_an_orphaned_pod_never_runs_alongside_its_successor(space: Space) -> None:
    space.apply(run("orphaned", "actor", backoffLimit=1, parameters={"sleep": "40"}))
    first = space.wait_for("orphaned", phase="Running", seconds=60)["jobStatus"]["name"]

    space.kubectl("delete", "job", first, "--cascade=orphan")

    def next_job() -> bool:
        running = [item for item in space.items("pods") if item["status"]["phase"] == "Running"]
        assert len(running) <= 1, "two Pods of a run at once"
        return bool(space.status("orphaned")["jobStatus"]["name"] != first)

    until(next_job, seconds=60, what="the next launch")
    space.kubectl("delete", "inferencerun", "orphaned")
    until(lambda: not space.items("pods"), seconds=30, what="no Pod is left")


@pytest.mark.thorough
def test_a_pod_that_replaces_another_starts_although_the_config_map_was_deleted(space: Space) -> None:
    space.apply(run("bereft", "actor", parameters={"sleep": "20"}))
    status = space.wait_for("bereft", phase="Running", seconds=60)
    pod = space.items("pods")[0]["metadata"]["name"]
    space.kubectl("delete", "configmap", status["jobStatus"]["name"])
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": space.name}}
    path = f"/api/v1/namespaces/{space.name}/pods/{pod}/eviction"
    space.stage.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction))

    status = space.wait_for("bereft", phase="Succeeded", seconds=300)

    assert status["attempt"] == 1


WAITS: dict[str, tuple[Object, str, str]] = {
    "image": ({"image": "localhost/no/such:1"}, "ImagePullFailed", "localhost/no/such:1"),
    "size": ({"resources": {"requests": {"cpu": "500"}}}, "Unschedulable", "Insufficient cpu"),
    "quota": ({}, "QuotaExceeded", "ConfigMap"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", WAITS)
def test_a_run_that_cannot_start_says_why_for_as_long_as_it_may_wait(space: Space, case: str) -> None:
    spec, reason, words = WAITS[case]
    if case == "quota":
        space.kubectl("create", "quota", "full", "--hard=count/configmaps=0")
    space.apply(config("waits", **spec), run("waits", "waits", pendingTimeoutSeconds=40))
    assert words in space.wait_for("waits", phase="Pending", reason=reason)["message"]
    space.wait_for("waits", phase="Failed", reason="PendingTimeout")


CA_BUNDLE = {"caBundle": {"configMapRef": {"name": "authorities"}}}
RESUMES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "quota": ("QuotaExceeded", "tight", ("delete", "quota", "tight")),
    "config": ("ConfigNotFound", "late", ("apply", "-f", "-")),
    "CA bundle": (
        "CABundleNotFound",
        "ConfigMap 'authorities' does not exist in namespace",
        ("create", "configmap", "authorities", "--from-literal=cabundle.crt=none"),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", RESUMES)
def test_a_run_that_waits_resumes_once_what_it_waits_for_is_there(space: Space, case: str) -> None:
    reason, words, fix = RESUMES[case]
    wanted = config("late", **(CA_BUNDLE if case == "CA bundle" else {}))
    if case == "quota":
        space.kubectl("create", "quota", "tight", "--hard=pods=0")
    space.apply(*([] if case == "config" else [wanted]), run("waits", "late"))
    waiting = space.wait_for("waits", phase="Pending", reason=reason, seconds=120)
    assert words in waiting["message"]
    if case == "CA bundle":
        stages = {item["type"]: (item["status"], item.get("reason")) for item in waiting["conditions"]}
        assert stages["ContractWritten"] == ("True", None)
        assert stages["JobComplete"] == ("Unknown", reason)
    space.kubectl(*fix, given=json.dumps(wanted))
    space.wait_for("waits", phase="Succeeded", seconds=240)
