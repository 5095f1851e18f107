"""KServe on the node: its definitions, objects whose status a test writes as KServe's controllers do, and real Pods behind them."""

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.stage import ROOT, Object, Space, Stage, config, provide_volumes
from tests.integration.kserve.definitions import cluster_serving_runtime, inference_service, llm_inference_service

PYTHON_IMAGE = "localhost/inferrun/base:dev"


@pytest.fixture
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
    provide_volumes()
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
    """A config of the built-in runner that reads from and writes to the claim."""
    given = {"file": {"claimName": "data", "path": "in.jsonl", "format": form}}
    made = {"file": {"claimName": "data", "path": "out", "format": form}}
    ours = config(name, kserve=kserve, storage={"input": given, "output": made}, backoffLimit=0)
    del ours["spec"]["image"]
    return ours


EXAMPLES = ROOT / "examples" / "kserve"


def apply_example(space: Space, name: str) -> tuple[Object, Object, str]:
    """Apply an example in the space: its object of KServe, its config and the name of its run."""
    items = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    for item in items:
        item["metadata"]["namespace"] = space.name
    space.apply(*items)
    [model, settings, its_run] = items
    return model, settings, its_run["metadata"]["name"]
