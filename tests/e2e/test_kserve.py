"""Runs of objects of KServe on the node: real Pods are behind the address in the status, which a test writes as KServe does."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

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


def service(name: str, *, port: int = 80, app: str = "model") -> Object:
    """The Service of the model; no Pod is behind it until there is one."""
    spec = {"selector": {"app": app}, "ports": [{"name": "http", "port": port, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def program(name: str, script: str, *, account: str = "", **environment: str) -> tuple[Object, Object]:
    """The program of a Pod, and the Pod's template."""
    container = {
        "name": name,
        "image": PYTHON_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"/srv/{name}/{script}"],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": [{"name": "script", "mountPath": f"/srv/{name}"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": name}}],
        **({"serviceAccountName": account} if account else {}),
    }
    text = Path(__file__).with_name(script).read_text()
    metadata = {"name": name, "labels": {"app": name}}
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {script: text}},
        {"metadata": {"labels": {"app": name}}, "spec": spec},
    )


def server(*, sleeps: bool = False, **environment: str) -> tuple[Object, Object]:
    """The Pod of the model and its program."""
    script, template = program("model", "waking_model.py", SLEEPS="yes" if sleeps else "no", **environment)
    metadata = {"name": "model", **template["metadata"]}
    return script, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def deployment(name: str, template: Object, *, replicas: int) -> Object:
    """A Deployment of a program."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def scaler(account: str) -> tuple[Object, ...]:
    """An account that may scale Deployments."""
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}]
    role = {"apiGroup": rbac, "kind": "Role", "name": account}
    metadata = {"name": account}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": account}],
        },
    )


def write_input(space: Space, text: str, *, path: str = "in.jsonl") -> None:
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
        "command": [
            "sh",
            "-c",
            'mkdir -p "${0%/*}" && printf "%s" "$INPUT" > "$0" && exec sleep 3600',
            f"/data/{path}",
        ],
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


def test_a_failed_load_and_a_stop(space: Space) -> None:
    """A custom image, so that no volume is needed; the failed run has no Job, the stopped one starts when the object does."""
    failure = {"reason": "ModelLoadFailed", "message": "unsupported pickle protocol: 9"}
    broken = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
    play(
        space,
        standard(metadata={"name": "broken"}, status={"modelStatus": broken, "conditions": conditions(Ready="False")}),
    )
    play(space, recorded("isvc-standard-stopped"))
    space.apply(service("sklearn-iris"), *server())
    for name in ("broken", "sklearn-iris"):
        space.apply(config(name, kserve={"serviceRef": {"name": name}}, backoffLimit=0))
        space.apply(run(name, name, parameters={"exit": "0"}))
    failed = space.wait_for("broken", phase="Failed", reason="ModelFailed")
    assert "ModelLoadFailed: unsupported pickle protocol: 9" in failed["message"]
    assert "is stopped" in space.wait_for("sklearn-iris", phase="Pending", reason="ModelNotReady")["message"]
    assert space.items("jobs") == []
    play(space, merged(knative(), {"metadata": {"annotations": {"serving.kserve.io/stop": "false"}}}))
    space.wait_for("sklearn-iris", phase="Succeeded", seconds=120)
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    images = [one["image"] for kind in ("initContainers", "containers") for one in pod["spec"][kind]]
    assert [image.rpartition("/")[2].partition(":")[0] for image in images] == ["runner", "actor"]
    [warm_up] = pod["status"]["initContainerStatuses"]
    assert warm_up["state"]["terminated"]["message"] == "the model is ready"


EXAMPLES = ROOT / "examples" / "kserve"


def apply_example(space: Space, name: str) -> tuple[Object, Object, str]:
    """Apply an example in the space: its object of KServe, its config and the name of its run."""
    items = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    for item in items:
        item["metadata"]["namespace"] = space.name
    space.apply(*items)
    [model, settings, its_run] = items
    return model, settings, its_run["metadata"]["name"]


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
    names = ("START_CONCURRENCY", "CONCURRENCY", "REQUEST_TIMEOUT")
    assert [limits[f"INFERRUN_{one}"] for one in names] == ["1", "4", "108"]


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
