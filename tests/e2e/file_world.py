"""A `file` run with a counting model server, on a real claim that the model's Pod mounts as
well."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.stage import Object, Space, config, provide_volumes

RECORDS = 20_000

UNHURRIED = {"maxBatchRecords": 1000, "concurrency": 1}
"""Requests of a run that takes about 15 seconds, so that it can be disturbed in the middle."""

FOLDER = "/data"
SCRIPT = Path(__file__).with_name("model_server.py")
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "inferrun-local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Mi"}},
    },
}
OF_CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def pod(name: str, *command: str, volumes: tuple[Object, ...], **container: object) -> Object:
    """A Pod of the base image; each volume is mounted at the path that is its name."""
    full = {
        "name": name,
        "image": "localhost/inferrun/base:dev",
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes
        ],
        **container,
    }
    user = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": user,
        "containers": [full],
        "volumes": list(volumes),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    }


def model_server(name: str, *volumes: Object, **environment: str) -> tuple[Object, Object]:
    """The Pod of a model server and its program."""
    program = {"metadata": {"name": name}, "data": {SCRIPT.name: SCRIPT.read_text()}}
    server = pod(
        name,
        "python3",
        f"/program/{SCRIPT.name}",
        volumes=({"name": "program", "configMap": {"name": name}}, *volumes),
        env=[{"name": key, "value": value} for key, value in environment.items()],
        readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    )
    return {"apiVersion": "v1", "kind": "ConfigMap", **program}, server


def service(name: str, *, app: str, port: int = 80) -> Object:
    spec = {"selector": {"app": app}, "ports": [{"name": "http", "port": port, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def in_pod(space: Space, script: str, *, pod: str = "counting") -> str:
    return space.kubectl("exec", pod, "--", "sh", "-c", script)


def counts_of(space: Space) -> dict[int, int]:
    path = f"/api/v1/namespaces/{space.name}/services/counting:80/proxy/counts"
    return {
        int(row): count
        for row, count in json.loads(space.stage.kubectl("get", "--raw", path)).items()
    }


def committed_in(space: Space) -> list[Object]:
    text = in_pod(space, f"cat {FOLDER}/out/*/predictions/part-* 2>/dev/null || true")
    return [json.loads(line) for line in text.splitlines()]


def prepare(space: Space, *, backoff_limit: int, **more: Any) -> None:  # Any: fields of a spec
    """Start the model, write the input and apply the config `ours` with the built-in runner; `more`
    are fields of its spec."""
    prepare_rows(space, backoffLimit=backoff_limit, **more)
    in_pod(space, f"python3 -c 'for i in range({RECORDS}): print([i, 1])' > {FOLDER}/in.jsonl")


# Any: as above
def of_files(name: str, *, kserve: Object, storage: Object | None = None, **spec: Any) -> Object:
    """A config of the built-in runner that reads from and writes to the claim."""
    files: Object = {
        "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    }
    ours = config(name, kserve=kserve, storage={**files, **(storage or {})}, **spec)
    del ours["spec"]["image"]
    return ours


# Any: fields of a spec
def prepare_rows(space: Space, *, model: str = "counting", **spec: Any) -> None:
    """Start the models, and apply the config `ours` for one of them with the built-in runner; the
    test writes the input."""
    provide_volumes()
    space.apply(
        CLAIM,
        *model_server("counting", OF_CLAIM, REQUEST_SECONDS="0.7"),
        service("counting", app="counting"),
    )
    space.kubectl("wait", "pod/counting", "--for=condition=Ready", "--timeout=55s")
    url = f"counting.{space.name}.svc.cluster.local/v2/models/{model}/infer"
    kserve = {"modelName": model, "modelUrl": url, "modelInputName": "in"}
    space.apply(of_files("ours", kserve=kserve, **spec))
