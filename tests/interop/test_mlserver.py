"""An InferenceService whose status points to real MLServer Pods, on the node, with the product installed by its chart."""

import json
import subprocess

import pytest
import yaml

from tests.e2e.conftest import space, stage
from tests.e2e.stage import ROOT, Object, Space, run, until
from tests.e2e.test_kserve import kserve, of_files, play, write_input
from tests.unit.inferrun.kserve.stored import merged, recorded, standard

__all__ = ["kserve", "space", "stage"]

RECORDS = 300
IRISES = "".join(f"[{4 + index % 40 / 10}, 3.5, {1 + index % 50 / 10}, 0.2]\n" for index in range(RECORDS))


@pytest.fixture
def model_server(space: Space) -> tuple[Object, ...]:
    """The Deployment of MLServer and the Service of the predictor, not yet applied."""
    command = ["python3", "-m", "tools.devcluster", "images", "examples"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=480)
    found = list(yaml.safe_load_all((ROOT / "examples" / "model-server.yaml").read_text()))
    for item in found:
        item["metadata"]["namespace"] = space.name
    return tuple(found)


def test_a_run_names_the_inference_service_and_mlserver_predicts(
    space: Space, model_server: tuple[Object, ...]
) -> None:
    """Ready comes before MLServer answers: its Pods start only after that."""
    write_input(space, IRISES)
    deployment, service = model_server
    play(space, merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}}))
    space.apply(service, of_files("iris", serviceRef={"name": "sklearn-iris"}))
    space.apply(run("irises", "iris", timeoutSeconds=600))
    space.wait_for("irises", phase="Pending", reason="ModelNotReady")
    play(space, standard())
    until(lambda: space.items("jobs") != [], seconds=60, what="the Job is created")
    space.apply(deployment)
    done = space.wait_for("irises", phase="Succeeded", seconds=240)
    assert done["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert done["model"]["protocol"] == "v2"
    lines = space.kubectl("exec", "files", "--", "sh", "-c", "cat /data/out/*/predictions/part-*").splitlines()
    assert len({json.loads(line)["index"] for line in lines}) == RECORDS
