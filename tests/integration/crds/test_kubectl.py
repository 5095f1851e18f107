"""What kubectl shows of runs and configs: columns, short names, the category, and the documentation
of a field."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.crds.server import Server

pytestmark = pytest.mark.thorough

INTERVAL = "2026-01-01T00:00:00Z/2026-02-01T00:00:00Z"
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def kubectl(kubeconfig: Path, namespace: str, server: Server) -> Callable[..., list[list[str]]]:
    """Runs kubectl where there are a finished run, a schedule and a config; returns the words of
    each line."""
    server.create("InferenceConfig", {"storage": {}, "image": "mine:1"}, name="iris")
    server.patch_status(
        "InferenceConfig",
        "iris",
        {"conditions": [{"type": "Ready", "status": "True", "reason": "Ok"}]},
    )
    server.create("InferenceRun", {"configRef": {"name": "iris"}}, name="january")
    status = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "records": {"total": 150, "completed": 149, "failed": 1},
        "duration": "1m5s",
        "jobStatus": {"name": "inf-january-5be07ada"},
        "workflow": {"id": "inferencerun/a/b/c"},
        "output": {"location": "data/out"},
        "interval": {"start": INTERVAL[:20], "end": INTERVAL[21:], "text": INTERVAL},
    }
    server.patch_status("InferenceRun", "january", status)
    server.create(
        "InferenceRun", {"configRef": {"name": "iris"}, "schedule": "@daily"}, name="nightly"
    )
    scheduled = {"phase": "Scheduled", "nextScheduleTimes": ["2126-11-22T00:00:00Z"]}
    server.patch_status("InferenceRun", "nightly", scheduled)
    program = (
        Path(os.environ.get("INFERRUN_BIN", str(CHECKOUT / ".devcluster" / "bin"))) / "kubectl"
    )

    def run(*words: str) -> list[list[str]]:
        command = [str(program), "--kubeconfig", str(kubeconfig), "--namespace", namespace, *words]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        return [line.split() for line in printed.splitlines()]

    return run


def test_the_columns_of_runs_and_configs_have_the_values_of_their_status(
    kubectl: Callable[..., list[list[str]]],
) -> None:
    header, january, nightly = kubectl("get", "irun", "-o", "wide")
    assert header[:8] == ["NAME", "PHASE", "REASON", "CONFIG", "DONE", "FAILED", "DURATION", "AGE"]
    assert header[8:] == ["JOB", "WORKFLOW", "OUTPUT", "INTERVAL", "NEXT"]
    assert january[:7] == ["january", "Succeeded", "Succeeded", "iris", "149", "1", "1m5s"]
    assert january[8:12] == ["inf-january-5be07ada", "inferencerun/a/b/c", "data/out", INTERVAL]
    assert nightly[-1] == "2126-11-22T00:00:00Z"
    header, iris = kubectl("get", "icfg")
    assert header == ["NAME", "READY", "REASON", "AGE"]
    assert iris[:3] == ["iris", "True", "Ok"]
    listed = sorted(name for (name,) in kubectl("get", "inferrun", "-o", "name"))
    runs = ["inferencerun.ai.krateo.io/january", "inferencerun.ai.krateo.io/nightly"]
    assert listed == ["inferenceconfig.ai.krateo.io/iris", *runs]


def test_explain_describes_a_field(kubectl: Callable[..., list[list[str]]]) -> None:
    text = " ".join(
        word for line in kubectl("explain", "inferencerun.spec.timeoutSeconds") for word in line
    )
    assert "Maximum running time in seconds, summed over all attempts" in text
