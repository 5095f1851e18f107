"""Runs of objects of KServe on the node: real Pods are behind the address in the status, which a
test writes as KServe does."""

import json

import pytest
import yaml

from tests.e2e.file_world import FOLDER, in_pod, model_server, of_files, service
from tests.e2e.kserve_world import kserve, play, write_input
from tests.e2e.stage import ROOT, Space, run, until
from tests.unit.inferrun.kserve.stored import llm, merged, recorded, standard

__all__ = ["kserve"]

pytestmark = pytest.mark.usefixtures("kserve")

STARTING = merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}})


def test_a_run_waits_for_the_object_then_for_the_model_and_spends_no_time_on_it(
    space: Space,
) -> None:
    """The object exists, is ready before anything answers, and its server says 503 while it loads
    the model."""
    write_input(space, "".join(f"[{index}, 1]\n" for index in range(100)))
    play(space, STARTING)
    space.apply(
        service("sklearn-iris-predictor", app="model"),
        of_files(
            "iris",
            kserve={"serviceRef": {"name": "sklearn-iris"}, "modelInputName": "in"},
            backoffLimit=0,
        ),
    )
    space.apply(run("waits", "iris", timeoutSeconds=300))
    status = space.wait_for("waits", phase="Pending", reason="ModelNotReady")
    assert (
        "(MinimumReplicasUnavailable: Deployment does not have minimum availability.)"
        in status["message"]
    )
    assert space.items("jobs") == []

    play(space, standard())
    until(lambda: space.items("jobs") != [], seconds=60, what="the Job is created")
    until(
        lambda: (
            "waits until the model answers; last seen: http://"
            in space.status("waits").get("message", "")
        ),
        seconds=90,
        what="the status says what the warm-up has seen",
        now=lambda: space.status("waits"),
    )
    assert space.status("waits")["reason"] == "ModelNotReady"

    space.apply(*model_server("model", SLEEPS="yes", REQUEST_SECONDS="0"))
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
    warm_up = pod["status"]["initContainerStatuses"][0]
    runner = pod["status"]["containerStatuses"][0]
    assert done["startTime"] >= warm_up["state"]["terminated"]["finishedAt"]
    assert runner["state"]["terminated"]["exitCode"] == 0
    assert done["model"]["endGeneration"] == done["model"]["generation"]
    url = (
        f"http://sklearn-iris-predictor.{space.name}.svc.cluster.local/v2/models/sklearn-iris/infer"
    )
    assert done["model"]["url"] == url


@pytest.mark.thorough
def test_the_example_of_an_llm_service(space: Space) -> None:
    """Without a router, its Service listens on port 8000, which the address in its status does not
    say."""
    request = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "any", "messages": [{"role": "user", "content": "irises"}]},
    }
    write_input(space, json.dumps(request) + "\n", path="in/batch.jsonl")
    items = list(
        yaml.safe_load_all(
            (ROOT / "examples" / "kserve" / "llm-inference-service.yaml").read_text()
        )
    )
    for item in items:
        item["metadata"]["namespace"] = space.name
    space.apply(*items)
    [model, settings, its_run] = items
    name, listed = its_run["metadata"]["name"], model["spec"]["model"]["name"]
    space.apply(
        service("qwen-kserve-workload-svc", app="model", port=8000),
        *model_server("model", LISTED=listed),
    )
    status = json.loads(json.dumps(llm()["status"]).replace("tiny-llm", model["metadata"]["name"]))
    play(space, {**model, "status": status})
    done = space.wait_for(name, phase="Succeeded", seconds=150)
    assert (done["model"]["protocol"], done["model"]["modelName"]) == ("openai", listed)
    assert (
        done["model"]["url"]
        == f"http://qwen-kserve-workload-svc.{space.name}.svc.cluster.local:8000/v1"
    )
    assert done["usage"]["totalTokens"] == 5
    folder = settings["spec"]["storage"]["output"]["file"]["path"]
    output = in_pod(space, f"cat {FOLDER}/{folder}/*/predictions/part-*", pod="files")
    assert '"content":"irises"' in output.replace(": ", ":")
