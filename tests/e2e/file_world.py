"""A `file` run with a counting model server, on a real claim that the model's Pod mounts as well."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.stage import Object, Space, config, provide_volumes

RECORDS = 20_000

UNHURRIED = {"maxBatchRecords": 1000, "concurrency": 1}
"""Requests of a run that takes about 15 seconds, so that it can be disturbed in the middle."""

FOLDER = "/data"


def world(space: Space) -> tuple[Object, ...]:
    """The counting model as Pod and Service. Its Pod also mounts the claim, so that files can be written and read."""
    script = Path(__file__).with_name("counting_model.py").read_text()
    metadata = {"name": "counting", "labels": {"app": "counting"}}
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "model",
        "image": "localhost/inferrun/base:dev",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/srv/model/counting_model.py"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "script", "mountPath": "/srv/model"}, {"name": "data", "mountPath": FOLDER}],
        "readinessProbe": {"httpGet": {"path": "/v2/models/counting", "port": 8080}, "periodSeconds": 1},
    }
    claim = {
        "storageClassName": "inferrun-local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Mi"}},
    }
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"counting_model.py": script}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": security,
                "containers": [container],
                "volumes": [
                    {"name": "script", "configMap": {"name": "counting"}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                ],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "counting"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )


def in_pod(space: Space, script: str) -> str:
    """Run a script in the model's Pod, which mounts the claim."""
    return space.kubectl("exec", "counting", "--", "sh", "-c", script)


def counts_of(space: Space) -> dict[int, int]:
    """How often the model has seen each row."""
    path = f"/api/v1/namespaces/{space.name}/services/counting:80/proxy/counts"
    return {int(row): count for row, count in json.loads(space.stage.kubectl("get", "--raw", path)).items()}


def committed_in(space: Space) -> list[Object]:
    """The committed predictions in order."""
    text = in_pod(space, f"cat {FOLDER}/out/*/predictions/part-* 2>/dev/null || true")
    return [json.loads(line) for line in text.splitlines()]


def prepare(space: Space, *, backoff_limit: int, **more: Any) -> None:  # Any: fields of a spec
    """Start the model, write the input and apply the config `ours` with the built-in runner; `more` are fields of its spec."""
    prepare_rows(space, backoffLimit=backoff_limit, **more)
    in_pod(space, f"python3 -c 'for i in range({RECORDS}): print([i, 1])' > {FOLDER}/in.jsonl")


def prepare_rows(
    space: Space, *, model: str = "counting", storage: Object | None = None, **spec: Any
) -> None:  # Any: fields of a spec
    """Start the models, and apply the config `ours` for one of them with the built-in runner; the test writes the input."""
    provide_volumes()
    space.apply(*world(space))
    space.kubectl("wait", "pod/counting", "--for=condition=Ready", "--timeout=55s")
    files: Object = {
        "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    }
    kserve = {
        "modelName": model,
        "modelUrl": f"counting.{space.name}.svc.cluster.local/v2/models/{model}/infer",
        "modelInputName": "in",
    }
    ours = config("ours", kserve=kserve, storage={**files, **(storage or {})}, **spec)
    del ours["spec"]["image"]
    space.apply(ours)
