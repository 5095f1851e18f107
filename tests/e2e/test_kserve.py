"""Runs of objects of KServe on the node: real Pods are behind the address in the status, which a test writes as KServe does."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.stage import ROOT, Object, Space, Stage, config, run, until
from tests.integration.kserve.definitions import cluster_serving_runtime, inference_service, llm_inference_service
from tests.unit.inferrun.kserve.stored import conditions, knative, llm, merged, recorded, standard

PYTHON_IMAGE = "localhost/inferrun/base:dev"


@pytest.fixture(autouse=True)
def kserve(stage: Stage) -> None:
    """KServe's definitions, written for these tests, are installed."""
    definitions = [inference_service(), llm_inference_service(), cluster_serving_runtime()]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    stage.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=body)
    for definition in definitions:
        name = definition["metadata"]["name"]
        stage.kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=60s", seconds=70)


def play(space: Space, item: Object) -> None:
    """Write the object with its status, as KServe's controllers do."""
    name, kind = item["metadata"]["name"], item["kind"].lower()
    metadata = {"name": name, "annotations": item["metadata"].get("annotations") or {}}
    space.apply({"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, "spec": item["spec"]})
    stored = space.get(kind, name)
    assert stored is not None
    text = json.dumps(item["status"]).replace("kserve-test", space.name)
    gone = dict.fromkeys(stored.get("status") or {})
    status = {**gone, **json.loads(text), "observedGeneration": stored["metadata"]["generation"]}
    patch = json.dumps({"status": status})
    space.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


def service(name: str, *, port: int = 80) -> Object:
    """The Service of the model; no Pod is behind it until there is one."""
    spec = {"selector": {"app": "model"}, "ports": [{"name": "http", "port": port, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def server(*, sleeps: bool) -> tuple[Object, Object]:
    """The Pod of the model and its program."""
    script = Path(__file__).with_name("waking_model.py").read_text()
    container = {
        "name": "model",
        "image": PYTHON_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/srv/model/waking_model.py"],
        "env": [{"name": "SLEEPS", "value": "yes" if sleeps else "no"}],
        "volumeMounts": [{"name": "script", "mountPath": "/srv/model"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": "model"}}],
    }
    metadata = {"name": "model", "labels": {"app": "model"}}
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"waking_model.py": script}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )


def write_input(space: Space, text: str) -> None:
    """A claim with the input, written by a Pod that also shows the output."""
    subprocess.run(["python3", "-m", "tools.devcluster", "volumes"], cwd=ROOT, check=True, capture_output=True)
    claim = {
        "storageClassName": "inferrun-local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Mi"}},
    }
    container = {
        "name": "files",
        "image": PYTHON_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", 'printf "%s" "$INPUT" > /data/in.jsonl && exec sleep 3600'],
        "env": [{"name": "INPUT", "value": text}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532},
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    space.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "files"}, "spec": spec},
    )
    space.kubectl("wait", "pod/files", "--for=condition=Ready", "--timeout=55s")


def of_files(name: str, *, form: str = "jsonl", **kserve: object) -> Object:
    """A config of our runner that reads from and writes to the claim."""
    given = {"file": {"claimName": "data", "path": "in.jsonl", "format": form}}
    made = {"file": {"claimName": "data", "path": "out", "format": form}}
    ours = config(name, kserve=kserve, storage={"input": given, "output": made}, backoffLimit=0)
    del ours["spec"]["image"]
    return ours


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
    assert status["message"].endswith("(MinimumReplicasUnavailable: Deployment does not have minimum availability.)")
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


def test_a_failed_load_and_a_stop(space: Space) -> None:
    """A custom image, so that no volume is needed; the failed run has no Job, the stopped one starts when the object does."""
    failure = {"reason": "ModelLoadFailed", "message": "unsupported pickle protocol: 9"}
    broken = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
    play(
        space,
        standard(metadata={"name": "broken"}, status={"modelStatus": broken, "conditions": conditions(Ready="False")}),
    )
    play(space, recorded("isvc-standard-stopped"))
    for name in ("broken", "sklearn-iris"):
        space.apply(config(name, kserve={"serviceRef": {"name": name}, "warmUpSeconds": 0}, backoffLimit=0))
        space.apply(run(name, name, parameters={"exit": "0"}))
    failed = space.wait_for("broken", phase="Failed", reason="ModelFailed")
    assert "ModelLoadFailed: unsupported pickle protocol: 9" in failed["message"]
    assert "is stopped" in space.wait_for("sklearn-iris", phase="Pending", reason="ModelNotReady")["message"]
    assert space.items("jobs") == []
    play(space, merged(knative(), {"metadata": {"annotations": {"serving.kserve.io/stop": "false"}}}))
    space.wait_for("sklearn-iris", phase="Succeeded", seconds=90)


def test_an_llm_service_without_a_router(space: Space) -> None:
    """Its Service listens on port 8000, which the address in its status does not say."""
    request = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "any", "messages": [{"role": "user", "content": "irises"}]},
    }
    write_input(space, json.dumps(request) + "\n")
    space.apply(service("tiny-llm-kserve-workload-svc", port=8000), *server(sleeps=False))
    play(space, llm())
    reference = {"kind": "LLMInferenceService", "name": "tiny-llm"}
    space.apply(of_files("llm", form="openai", serviceRef=reference), run("chat", "llm"))
    done = space.wait_for("chat", phase="Succeeded", seconds=120)
    assert (done["model"]["protocol"], done["model"]["modelName"]) == ("openai", "tiny")
    assert done["usage"]["totalTokens"] == 5
    output = space.kubectl("exec", "files", "--", "sh", "-c", "cat /data/out/*/predictions/part-*")
    assert '"content":"irises"' in output.replace(": ", ":")
