"""One command installs the product with a Temporal development server, and a run succeeds."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import install
from tests.e2e.file_world import FOLDER, in_pod, prepare_rows
from tests.e2e.stage import ROOT, SYSTEM, Space, Stage, run
from tools.devcluster import binaries, images

pytestmark = [pytest.mark.alone, pytest.mark.thorough]

FILES = ROOT / "tests" / "e2e" / "images" / "temporal"
IMAGE = images.Image(
    "localhost/inferrun-tests/temporal:dev", FILES, FILES / "Dockerfile", module=binaries.TEMPORAL
)


@pytest.fixture
def trial(stage: Stage) -> Iterator[None]:
    """The product, installed for a trial; afterwards as before."""
    images.build_and_load(IMAGE)
    chart, server = str(ROOT / "deploy" / "helm" / "inferrun"), f"temporal.dev.image={IMAGE.name}"
    stage.helm("uninstall", "inferrun", "--wait")
    try:
        stage.helm(
            "install",
            "inferrun",
            chart,
            "--set",
            f"temporal.dev.enabled=true,{server}",
            "--wait",
            seconds=400,
        )
        yield
    finally:
        stage.helm("uninstall", "inferrun", "--wait")
        install(stage)


@pytest.mark.usefixtures("trial")
def test_a_trial_installation_executes_a_run(stage: Stage, space: Space) -> None:
    prepare_rows(space, backoffLimit=0)
    in_pod(space, f"echo '[1, 1]' > {FOLDER}/in.jsonl")
    space.apply(run("first", "ours"))
    status = space.wait_for("first", phase="Succeeded", seconds=150)
    assert status["records"] == {"total": 1, "completed": 1, "failed": 0}
    assert status["workflow"]["url"].startswith("http://localhost:8233/")
    client = ["exec", "deployment/inferrun-temporal", "--", "/temporal"]
    text = stage.kubectl(
        "-n",
        SYSTEM,
        *client,
        "workflow",
        "list",
        "--query",
        f'InferrunRun="{space.name}/first"',
        "-o",
        "json",
    )
    assert [workflow["status"] for workflow in json.loads(text)] == [
        "WORKFLOW_EXECUTION_STATUS_COMPLETED"
    ]
