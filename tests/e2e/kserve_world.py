"""KServe on the node: its definitions, objects whose status a test writes as KServe's controllers
do, and real Pods behind them."""

import json

import pytest

from tests.e2e.file_world import CLAIM, FOLDER, OF_CLAIM, pod
from tests.e2e.stage import Object, Space, Stage, provide_volumes
from tests.integration.kserve.definitions import (
    cluster_serving_runtime,
    inference_service,
    llm_inference_service,
)


@pytest.fixture
def kserve(stage: Stage) -> None:
    """KServe's definitions, written for these tests, are installed."""
    definitions = [inference_service(), llm_inference_service(), cluster_serving_runtime()]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    stage.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=body)
    for definition in definitions:
        name = definition["metadata"]["name"]
        stage.kubectl(
            "wait", f"crd/{name}", "--for=condition=Established", "--timeout=60s", seconds=70
        )


def play(space: Space, item: Object) -> None:
    """Write the object with its status, as KServe's controllers do."""
    name, kind = item["metadata"]["name"], item["kind"].lower()
    metadata = {"name": name, "annotations": item["metadata"].get("annotations") or {}}
    space.apply(
        {
            "apiVersion": item["apiVersion"],
            "kind": item["kind"],
            "metadata": metadata,
            "spec": item["spec"],
        }
    )
    stored = space.get(kind, name)
    assert stored is not None
    text = json.dumps(item["status"]).replace("kserve-test", space.name)
    gone = dict.fromkeys(stored.get("status") or {})
    status = {**gone, **json.loads(text), "observedGeneration": stored["metadata"]["generation"]}
    patch = json.dumps({"status": status})
    space.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


def write_input(space: Space, text: str, *, path: str = "in.jsonl") -> None:
    """A claim with the input, written by a Pod that also shows the output."""
    provide_volumes()
    script = 'mkdir -p "${0%/*}" && printf "%s" "$INPUT" > "$0" && exec sleep 3600'
    command = ("sh", "-c", script, f"{FOLDER}/{path}")
    space.apply(
        CLAIM, pod("files", *command, volumes=(OF_CLAIM,), env=[{"name": "INPUT", "value": text}])
    )
    space.kubectl("wait", "pod/files", "--for=condition=Ready", "--timeout=55s")
