"""Programs of others that do not know Python: the workflow in Go among the examples, and the
Temporal command line."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.e2e.file_world import FOLDER, in_pod, prepare_rows
from tests.e2e.stage import ROOT, Object, Space, config
from tests.published_schemas import violations
from tools.devcluster.binaries import GO_ENV

pytestmark = pytest.mark.thorough

EXAMPLE = ROOT / "examples" / "go-workflow"
SECONDS = 180
ROWS = 50


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled with the versions in its go.sum."""
    if shutil.which("go") is None:
        pytest.skip("Go is required")
    built = tmp_path_factory.mktemp("go") / "two-runs"
    command = ["go", "build", "-mod=readonly", "-o", str(built), "."]
    subprocess.run(command, cwd=EXAMPLE, env={**os.environ, **GO_ENV}, check=True, timeout=900)
    return built


def execute(
    program: Path, space: Space, *configs: str, key: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(program), "-id", key, "-namespace", space.name, *configs],
        env={**os.environ, "TEMPORAL_ADDRESS": space.stage.temporal_address},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def new_id(space: Space) -> str:
    return f"{space.name}-{uuid.uuid4().hex[:6]}"


def test_a_workflow_in_go_chains_two_runs_and_gets_their_results_or_a_typed_error(
    program: Path, space: Space
) -> None:
    prepare_rows(space, backoffLimit=0)
    in_pod(space, f"python3 -c 'for i in range({ROWS}): print([i, 1])' > {FOLDER}/in.jsonl")
    ours = space.get("inferenceconfig", "ours")
    assert ours is not None
    spec = ours["spec"]
    output = spec["storage"]["output"]
    second = {"input": {"run": {"name": "$(params.upstream)"}}, "output": output}
    absent = {"input": {"file": {"claimName": "data", "path": "absent.jsonl"}}, "output": output}
    columns = {"inputs": [{"columns": ["prediction", "index"]}]}
    for name, storage, more in (("review", second, {"tensors": columns}), ("broken", absent, {})):
        made = config(name, **{**spec, **more, "storage": storage})
        del made["spec"]["image"]
        space.apply(made)

    key = new_id(space)
    done = execute(program, space, "ours", "review", key=key)
    assert done.returncode == 0, done.stderr
    assert f"{key}-1: " in done.stderr, "it shows the progress"
    results: list[Object] = json.loads(done.stdout)
    assert [result["name"] for result in results] == [f"{key}-1", f"{key}-2"]
    for result in results:
        assert (result["phase"], result["usage"]) == ("Succeeded", None)
        assert result["records"] == {"total": ROWS, "completed": ROWS, "failed": 0}
        manifest = in_pod(
            space, f"cat {FOLDER}/out/inf-{result['name']}-*/manifest.json | sha256sum"
        )
        assert manifest.split()[0] == result["output"]["sha256"]

    failed = execute(program, space, "broken", "review", key=new_id(space))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "failed, reason InputFailed: " in failed.stderr
    assert "absent.jsonl" in failed.stderr


def test_the_temporal_command_line_shows_suspends_and_cancels_a_run(space: Space) -> None:
    key = new_id(space)
    request = json.dumps(
        {"namespace": space.name, "configRef": "actor", "parameters": {"sleep": "600"}}
    )
    started = (
        "--type",
        "SubmitInferenceRun",
        "--task-queue",
        "inferrun",
        "--workflow-id",
        key,
        "--input",
        request,
    )
    space.stage.temporal("workflow", "start", *started)
    space.wait_for(key, phase="Running", seconds=SECONDS)

    def progress() -> Object:
        printed = space.stage.temporal(
            "workflow", "query", "--workflow-id", key, "--type", "progress", "-o", "json"
        )
        (told,) = json.loads(printed)["queryResult"]
        assert violations("progress", told) == []
        found: Object = told
        return found

    def update(name: str) -> Object:
        words = (
            "workflow",
            "update",
            "execute",
            "--workflow-id",
            key,
            "--name",
            name,
            "-o",
            "json",
        )
        printed: Object = json.loads(space.stage.temporal(*words))
        return printed

    assert (progress()["phase"], progress()["attempt"]) == ("Running", 1)
    edited = update("suspend")
    assert violations("edited-run", edited["result"]) == []
    space.wait_for(key, phase="Suspended", seconds=SECONDS)
    assert progress()["suspend"] is True
    with pytest.raises(AssertionError, match="it is suspended already"):
        update("suspend")
    update("resume")
    space.wait_for(key, phase="Running", seconds=SECONDS)
    update("cancel")
    space.wait_for(key, phase="Failed", reason="Cancelled", seconds=SECONDS)
