"""A `file` run on a real claim with a counting model server, whose Pod is killed in the middle."""

import json
import subprocess
from pathlib import Path

from tests.e2e.stage import ROOT, Object, Space, config, kill_9, run, until

RECORDS = 20_000
FOLDER = "/data"


def _world(space: Space) -> tuple[Object, ...]:
    """The counting model as Pod and Service. Its Pod also mounts the claim, so that files can be written and read."""
    script = Path(__file__).with_name("counting_model.py").read_text()
    metadata = {"name": "counting", "labels": {"app": "counting"}}
    security = {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532}
    container = {
        "name": "model",
        "image": "localhost/inferrun/base:dev",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/srv/model/counting_model.py"],
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


def _in_pod(space: Space, script: str) -> str:
    return space.kubectl("exec", "counting", "--", "sh", "-c", script)


def _counts(space: Space) -> dict[int, int]:
    path = f"/api/v1/namespaces/{space.name}/services/counting:80/proxy/counts"
    return {int(row): count for row, count in json.loads(space.stage.kubectl("get", "--raw", path)).items()}


def _committed(space: Space) -> list[Object]:
    """The committed predictions in order."""
    text = _in_pod(space, f"cat {FOLDER}/out/*/predictions/part-* 2>/dev/null || true")
    return [json.loads(line) for line in text.splitlines()]


def test_killing_a_pod_neither_loses_nor_duplicates_records_nor_repeats_chunks(space: Space) -> None:
    subprocess.run(["python3", "-m", "tools.devcluster", "volumes"], cwd=ROOT, check=True, capture_output=True)
    space.apply(*_world(space))
    space.kubectl("wait", "pod/counting", "--for=condition=Ready", "--timeout=55s")
    _in_pod(space, f"python3 -c 'for i in range({RECORDS}): print([i, 1])' > {FOLDER}/in.jsonl")
    storage = {
        "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    }
    kserve = {
        "modelName": "counting",
        "modelUrl": f"counting.{space.name}.svc.cluster.local/v2/models/counting/infer",
        "modelInputName": "in",
    }
    ours = config("ours", kserve=kserve, storage=storage, backoffLimit=2)
    del ours["spec"]["image"]
    space.apply(ours, run("counted", "ours"))
    space.wait_for("counted", phase="Running", seconds=60)
    until(lambda: len(_committed(space)) >= RECORDS / 8, seconds=60, what="an eighth is committed")

    pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    committed = {item["index"] for item in _committed(space)}
    kill_9(space.stage, space.name, pods[0]["metadata"]["name"])

    status = space.wait_for("counted", phase="Succeeded", seconds=150)
    assert len(committed) < RECORDS, "it was over before it could be disturbed"
    assert status["attempt"] == 2
    assert status["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert status["delivery"] == "ExactlyOnce"
    predictions = _committed(space)
    assert [item["index"] for item in predictions] == list(range(RECORDS))
    assert all(item["prediction"] in (item["index"] + 1, [item["index"] + 1]) for item in predictions)
    counts = _counts(space)
    assert set(counts) == set(range(RECORDS))
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"
    manifest = json.loads(_in_pod(space, f"cat {FOLDER}/out/*/manifest.json"))
    assert manifest["records"]["completed"] == RECORDS
