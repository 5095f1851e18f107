"""Runs of objects of KServe on the node: real Pods are behind the address in the status, which a test writes as KServe does."""

import json

import pytest

from tests.e2e.kserve_world import (
    apply_example,
    deployment,
    kserve,
    of_files,
    play,
    program,
    scaler,
    server,
    service,
    write_input,
)
from tests.e2e.stage import Space, run, until
from tests.unit.inferrun.kserve.stored import knative, llm, merged, recorded, standard

__all__ = ["kserve"]

pytestmark = pytest.mark.usefixtures("kserve")

STARTING = merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}})


def test_a_run_waits_for_the_object_then_for_the_model_and_spends_no_time_on_it(space: Space) -> None:
    """The object exists, is ready before anything answers, and its server says 503 while it loads the model."""
    write_input(space, "".join(f"[{index}, 1]\n" for index in range(100)))
    play(space, STARTING)
    space.apply(
        service("sklearn-iris-predictor"), of_files("iris", serviceRef={"name": "sklearn-iris"}, modelInputName="in")
    )
    space.apply(run("waits", "iris", timeoutSeconds=300))
    status = space.wait_for("waits", phase="Pending", reason="ModelNotReady")
    assert "(MinimumReplicasUnavailable: Deployment does not have minimum availability.)" in status["message"]
    assert space.items("jobs") == []

    play(space, standard())
    until(lambda: space.items("jobs") != [], seconds=60, what="the Job is created")
    until(
        lambda: "waits until the model answers; last seen: http://" in space.status("waits").get("message", ""),
        seconds=90,
        what="the status says what the warm-up has seen",
        now=lambda: space.status("waits"),
    )
    assert space.status("waits")["reason"] == "ModelNotReady"

    space.apply(*server(sleeps=True))
    until(
        lambda: "status 503" in space.status("waits").get("message", ""),
        seconds=90,
        what="the server answers, but not the model",
        now=lambda: space.status("waits"),
    )
    space.kubectl("exec", "model", "--", "touch", "/tmp/awake")  # noqa: S108 -- in the container
    done = space.wait_for("waits", phase="Succeeded", seconds=120)
    assert done["records"] == {"total": 100, "completed": 100, "failed": 0}
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    warm_up, runner = pod["status"]["initContainerStatuses"][0], pod["status"]["containerStatuses"][0]
    assert done["startTime"] >= warm_up["state"]["terminated"]["finishedAt"]
    assert runner["state"]["terminated"]["exitCode"] == 0
    assert done["model"]["endGeneration"] == done["model"]["generation"]
    url = f"http://sklearn-iris-predictor.{space.name}.svc.cluster.local/v2/models/sklearn-iris/infer"
    assert done["model"]["url"] == url


@pytest.mark.thorough
def test_a_model_without_pods_gets_one_when_the_run_asks_for_it(space: Space) -> None:
    """As Knative scales from zero: only a request has the Pod started, and only the run's Pod sends requests."""
    write_input(space, "".join(f"[{index}, 1]\n" for index in range(100)))
    activator, in_front = program("activator", "activator.py", account="activator")
    model, asleep = program("model", "waking_model.py")
    space.apply(*scaler("activator"), activator, model, service("model"), service("sklearn-iris", app="activator"))
    space.apply(deployment("activator", in_front, replicas=1), deployment("model", asleep, replicas=0))
    space.kubectl("rollout", "status", "deployment/activator", "--timeout=55s")
    states = {"activeModelState": "", "targetModelState": "Pending"}
    play(
        space,
        knative(
            status={"modelStatus": {"transitionStatus": "InProgress", "states": states, "copies": {"totalCopies": 0}}}
        ),
    )
    space.apply(of_files("iris", serviceRef={"name": "sklearn-iris"}, modelInputName="in"), run("wakes", "iris"))
    done = space.wait_for("wakes", phase="Succeeded", seconds=150)
    assert done["records"] == {"total": 100, "completed": 100, "failed": 0}
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    [woken] = space.items("pods", "app=model")
    [warm_up] = pod["status"]["initContainerStatuses"]
    assert woken["metadata"]["creationTimestamp"] >= warm_up["state"]["terminated"]["startedAt"]
    clients = set(space.kubectl("logs", "deployment/activator", "--tail=-1").split()) - {"client"}
    assert clients == {pod["status"]["podIP"]}


@pytest.mark.thorough
def test_the_example_of_an_inference_service(space: Space) -> None:
    """The run may be created before the model is ready; its requests respect the limits of the object."""
    write_input(space, "".join(f"[{index}, 1, 2, 3]\n" for index in range(100)), path="in/iris.jsonl")
    model, _, name = apply_example(space, "inference-service.yaml")
    space.wait_for(name, phase="Pending", reason="ModelNotReady")
    space.apply(service("sklearn-iris-predictor"), *server())
    play(space, {**model, "status": standard()["status"]})
    done = space.wait_for(name, phase="Succeeded", seconds=150)
    assert done["records"] == {"total": 100, "completed": 100, "failed": 0}
    assert (done["model"]["protocol"], done["model"]["modelName"]) == ("v2", "sklearn-iris")
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    limits = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert (limits["INFERRUN_START_CONCURRENCY"], limits["INFERRUN_REQUEST_TIMEOUT"]) == ("4", "108")


@pytest.mark.thorough
def test_the_example_of_an_llm_service(space: Space) -> None:
    """Without a router, its Service listens on port 8000, which the address in its status does not say."""
    request = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "any", "messages": [{"role": "user", "content": "irises"}]},
    }
    write_input(space, json.dumps(request) + "\n", path="in/batch.jsonl")
    model, settings, name = apply_example(space, "llm-inference-service.yaml")
    listed = model["spec"]["model"]["name"]
    space.apply(service("qwen-kserve-workload-svc", port=8000), *server(LISTED=listed))
    status = json.loads(json.dumps(llm()["status"]).replace("tiny-llm", model["metadata"]["name"]))
    play(space, {**model, "status": status})
    done = space.wait_for(name, phase="Succeeded", seconds=150)
    assert (done["model"]["protocol"], done["model"]["modelName"]) == ("openai", listed)
    assert done["model"]["url"] == f"http://qwen-kserve-workload-svc.{space.name}.svc.cluster.local:8000/v1"
    assert done["usage"]["totalTokens"] == 5
    folder = settings["spec"]["storage"]["output"]["file"]["path"]
    output = space.kubectl("exec", "files", "--", "sh", "-c", f"cat /data/{folder}/*/predictions/part-*")
    assert '"content":"irises"' in output.replace(": ", ":")
