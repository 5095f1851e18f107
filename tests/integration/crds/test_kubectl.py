"""The output of kubectl: columns, short names, the category, and field documentation."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from tests.integration.crds.server import Server, call

pytestmark = pytest.mark.thorough

Kubectl = Callable[..., str]

START, END = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def kubectl(kubeconfig: Path, shown: str) -> Kubectl:
    """Runs kubectl in the namespace with the objects and returns its output."""
    binaries = os.environ.get("INFERRUN_BIN", str(CHECKOUT / ".devcluster" / "bin"))
    program = shutil.which("kubectl", path=f"{binaries}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.fail(f"no kubectl in {binaries} nor on the PATH; run: make cluster")

    def run(*arguments: str) -> str:
        command = [program, "--kubeconfig", str(kubeconfig), "--namespace", shown, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    return run


@pytest.fixture(scope="module")
def shown(client: httpx.Client, server: Server) -> Iterator[str]:
    """A finished run, a schedule and a config, in a namespace of their own: a second attempt to create them finds none."""
    name = f"shown-{token_hex(4)}"
    call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        _create_objects(Server(client, namespace=name))
        yield name
    finally:
        call(client, "DELETE", f"/api/v1/namespaces/{name}")


def _create_objects(server: Server) -> None:
    server.create("InferenceConfig", {"storage": {}, "image": "mine:1"}, name="iris")
    ready = {"type": "Ready", "status": "True", "reason": "Ready"}
    server.patch_status("InferenceConfig", "iris", {"conditions": [ready]})
    server.create("InferenceRun", {"configRef": {"name": "iris"}}, name="january")
    server.patch_status(
        "InferenceRun",
        "january",
        {
            "phase": "Succeeded",
            "reason": "Succeeded",
            "records": {"total": 150, "completed": 149, "failed": 1},
            "duration": "1m5s",
            "jobStatus": {"name": "inf-january-5be07ada"},
            "workflow": {"id": "inferencerun/a/b/c"},
            "output": {"location": "data/out"},
            "interval": {"start": START, "end": END, "text": f"{START}/{END}"},
        },
    )
    server.create("InferenceRun", {"configRef": {"name": "iris"}, "schedule": "@daily"}, name="nightly")
    server.patch_status(
        "InferenceRun", "nightly", {"phase": "Scheduled", "nextScheduleTimes": ["2126-11-22T00:00:00Z"]}
    )


def test_a_run_is_shown_with_its_counts(kubectl: Kubectl) -> None:
    header, january = kubectl("get", "irun", "january").splitlines()
    assert header.split() == ["NAME", "PHASE", "REASON", "CONFIG", "DONE", "FAILED", "DURATION", "AGE"]
    assert january.split()[:7] == ["january", "Succeeded", "Succeeded", "iris", "149", "1", "1m5s"]


def test_the_wide_view_shows_job_workflow_output_interval_and_the_next_time(kubectl: Kubectl) -> None:
    header, january, nightly = kubectl("get", "inferenceruns", "-o", "wide").splitlines()
    assert header.split()[8:] == ["JOB", "WORKFLOW", "OUTPUT", "INTERVAL", "NEXT"]
    assert january.split()[8:12] == ["inf-january-5be07ada", "inferencerun/a/b/c", "data/out", f"{START}/{END}"]
    assert nightly.split()[-1] == "2126-11-22T00:00:00Z"


def test_a_config_is_shown_with_its_readiness(kubectl: Kubectl) -> None:
    header, iris = kubectl("get", "icfg").splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "AGE"]
    assert iris.split()[:3] == ["iris", "True", "Ready"]


def test_the_category_shows_both(kubectl: Kubectl) -> None:
    listed = kubectl("get", "inferrun", "-o", "name").split()
    assert sorted(listed) == [
        "inferenceconfig.ai.krateo.io/iris",
        "inferencerun.ai.krateo.io/january",
        "inferencerun.ai.krateo.io/nightly",
    ]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("inferencerun", "A single execution of an InferenceConfig"),
        ("inferencerun.spec.timeoutSeconds", "Maximum running time in seconds, summed over all attempts"),
        ("inferencerun.spec.schedule", "a cron expression with five fields"),
        ("inferencerun.status.records", "Numbers of records"),
        ("inferenceconfig.spec.storage.input.file.path", "Path relative to the root of the claim"),
        ("inferenceconfig.spec.storage.output.krateo.api.endpointRef", "Secret with the address"),
    ],
)
def test_explain_describes_a_field(kubectl: Kubectl, path: str, sentence: str) -> None:
    assert sentence in " ".join(kubectl("explain", path).split())
