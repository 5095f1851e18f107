"""InferenceServices whose status points to real MLServer Pods, on the node, with the product
installed by its chart."""

import json
import subprocess
import time
from datetime import UTC, datetime

import pytest
import yaml

from inferrun.timestamps import parse
from tests.e2e.conftest import space, stage
from tests.e2e.file_world import in_pod, of_files
from tests.e2e.kserve_world import kserve, play, write_input
from tests.e2e.stage import ROOT, Object, Space, run, until
from tests.unit.inferrun.kserve.stored import merged, recorded, standard, with_model

__all__ = ["kserve", "space", "stage"]

pytestmark = pytest.mark.usefixtures("kserve")

RECORDS = 300
OBJECT = {"serviceRef": {"name": "sklearn-iris"}}
IRISES = "".join(
    f"[{4 + index % 40 / 10}, 3.5, {1 + index % 50 / 10}, 0.2]\n" for index in range(RECORDS)
)
LIMIT = 90
"""The run's timeoutSeconds."""

ASLEEP_SECONDS = 130
"""For so long nothing answers although the object is ready: longer than the run's limit."""


@pytest.fixture(scope="module")
def model_server() -> tuple[Object, Object]:
    """The Deployment of MLServer and the Service of the predictor."""
    command = ["python3", "-m", "tools.devcluster", "images", "examples"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=480)
    deployment, service = yaml.safe_load_all((ROOT / "examples" / "model-server.yaml").read_text())
    return deployment, service


def in_space(space: Space, item: Object, **spec: object) -> Object:
    return merged(item, {"metadata": {"namespace": space.name}, "spec": spec})


def predictions(space: Space) -> int:
    lines = in_pod(space, "cat /data/out/*/predictions/part-*", pod="files").splitlines()
    return len({json.loads(line)["index"] for line in lines})


def seconds_of_warm_up(space: Space) -> float:
    """For how long the init container ran."""
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    ended = pod["status"]["initContainerStatuses"][0]["state"]["terminated"]
    return (parse(ended["finishedAt"]) - parse(ended["startedAt"])).total_seconds()


def test_an_inference_service_is_ready_minutes_before_its_model_answers(
    space: Space, model_server: tuple[Object, Object]
) -> None:
    """The Pods of MLServer start more than two minutes after the object is ready: the run's time
    does not count that."""
    write_input(space, IRISES)
    deployment, service = model_server
    play(space, merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}}))
    space.apply(in_space(space, service), of_files("iris", kserve=OBJECT, backoffLimit=0))
    space.apply(run("irises", "iris", timeoutSeconds=LIMIT))
    space.wait_for("irises", phase="Pending", reason="ModelNotReady")
    play(space, standard())
    until(lambda: space.items("jobs") != [], seconds=60, what="the Job is created")
    until(
        lambda: _has_waited(space),
        seconds=ASLEEP_SECONDS + 90,
        what="the warm-up has waited for minutes",
    )
    seen = space.status("irises")
    space.apply(in_space(space, deployment))
    done = space.wait_for("irises", phase="Succeeded", seconds=300)
    assert (
        seen["reason"],
        "waits until the model answers; last seen: http://" in seen["message"],
    ) == (
        "ModelNotReady",
        True,
    )
    assert done["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert (done["attempt"], done["model"]["protocol"], predictions(space)) == (1, "v2", RECORDS)
    waited = seconds_of_warm_up(space)
    assert waited > ASLEEP_SECONDS > LIMIT
    print(f"V2 over REST: warm-up {waited:.0f} s, run {done['duration']}")


def _has_waited(space: Space) -> bool:
    pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    states = [
        one["state"] for pod in pods for one in pod["status"].get("initContainerStatuses") or []
    ]
    started = next((state["running"]["startedAt"] for state in states if "running" in state), None)
    return (
        started is not None
        and (datetime.now(UTC) - parse(started)).total_seconds() > ASLEEP_SECONDS
    )


def test_an_inference_service_that_speaks_only_grpc(
    space: Space, model_server: tuple[Object, Object]
) -> None:
    """Protocol and port come from the object and its Service, which leads to MLServer's port for
    gRPC alone."""
    write_input(space, IRISES)
    deployment, service = model_server
    ports = [{"name": "h2c", "port": 80, "protocol": "TCP", "targetPort": 8081}]
    space.apply(in_space(space, service, ports=ports), in_space(space, deployment))
    play(space, with_model(standard(), protocolVersion="grpc-v2"))
    space.apply(
        of_files("iris", kserve=OBJECT, backoffLimit=0), run("irises", "iris", timeoutSeconds=LIMIT)
    )
    began = time.monotonic()
    done = space.wait_for("irises", phase="Succeeded", seconds=300)
    assert done["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    host = f"sklearn-iris-predictor.{space.name}.svc.cluster.local"
    assert (done["model"]["protocol"], done["model"]["url"]) == ("grpc-v2", f"grpc://{host}:80")
    assert predictions(space) == RECORDS
    [pod] = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    [warm_up] = pod["status"]["initContainerStatuses"]
    assert warm_up["state"]["terminated"]["message"] == "the model is ready"
    print(
        f"V2 over gRPC: warm-up {seconds_of_warm_up(space):.0f} s, run {done['duration']}, {time.monotonic() - began:.0f} s in all"
    )
