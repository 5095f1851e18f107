"""The commands of the documentation, executed as they are written: by somebody who has installed
the chart."""

import os
import re
import subprocess
import tarfile
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from tests.e2e.file_world import in_pod, prepare_rows
from tests.e2e.stage import ROOT, Space, run
from tests.integration.runner.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server
from tests.unit.docs.pages import DOCS, blocks

GUIDE = DOCS / "how-to" / "cli.md"
QUICKSTART = DOCS / "quickstart.md"
RECORDS = 150


@pytest.fixture
def home(space: Space, tmp_path: Path) -> Path:
    """A home directory, whose kubeconfig selects the namespace."""
    settings = yaml.safe_load(space.stage.kubeconfig.read_text())
    for one in settings["contexts"]:
        one["context"]["namespace"] = space.name
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(settings))
    return tmp_path


def shell(
    command: str, home: Path, *, given: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ.get('INFERRUN_BIN', ROOT / '.devcluster' / 'bin')}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", command],
        input=given,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=home,
        env={"PATH": path, "HOME": str(home), **environment},
    )
    assert "Traceback" not in done.stderr, f"{command}: {done.stderr}"
    return done


def commands() -> list[str]:
    """The commands of the guide in their order: those in its table, and those in its blocks."""
    table = [line for line in GUIDE.read_text().splitlines() if line.startswith("| ")]
    spans = [span for line in table for span in re.findall(r"`(inferrun [^`]+)`", line)]
    return spans + [
        line
        for block in blocks(GUIDE, "")
        for line in block.splitlines()
        if line.startswith("inferrun ")
    ]


def copy_output(space: Space, home: Path) -> None:
    """Copy the folder `out` of the claim, as kubectl cp does from an image that contains tar."""
    script = "import sys, tarfile; tarfile.open(fileobj=sys.stdout.buffer, mode='w|').add('/data/out', 'out')"
    packed = in_pod(space, f'python3 -c "{script}" | base64 -w 0')
    with tarfile.open(fileobj=BytesIO(b64decode(packed))) as archive:
        archive.extractall(home, filter="data")


def test_the_commands_of_the_guide_do_what_it_says(space: Space, home: Path) -> None:
    prepare_rows(space)
    in_pod(space, f"python3 -c 'for i in range({RECORDS}): print([i, 1])' > /data/in.jsonl")
    iris = {**(space.get("inferenceconfig", "ours") or {}), "metadata": {"name": "iris"}}
    iris.pop("status", None)
    (home / "config.yaml").write_text(yaml.safe_dump(iris))
    space.apply(
        iris,
        run("done", "iris"),
        run("long", "actor", parameters={"sleep": "600"}),
        run("nightly", "iris", schedule="0 2 * * *"),
    )
    space.wait_for("done", phase="Succeeded", seconds=90)
    space.wait_for("long", phase="Running", seconds=60)
    found = commands()
    assert len(found) > 20, found
    for command in found:
        verb = command.split()[1]
        target = "long" if verb in ("suspend", "resume", "cancel") else "done"
        typed = re.sub(r"\bRUN\b", target, command).replace("SCHEDULE", "nightly")
        typed += " --directory ." if verb in ("results", "errors") else ""
        if verb == "results":
            copy_output(space, home)
        answers = (
            "made\nmodel\npvc://data/in.jsonl\npvc://data/out\nnone\n" if verb == "init" else ""
        )
        done = shell(typed, home, given=answers, TEMPORAL_ADDRESS=space.stage.temporal_address)
        assert done.returncode == 0, f"{typed}: {done.stdout}{done.stderr}"
    assert (home / "made.yaml").exists()
    assert (home / "results.parquet").exists()
    space.wait_for("long", phase="Failed", reason="Cancelled", seconds=60)


async def test_three_commands_lead_from_an_installed_chart_to_a_data_frame(
    space: Space, home: Path
) -> None:
    prepare_rows(space)
    # an address of this machine that Pods reach
    bridge = space.stage.temporal_address.partition(":")[0]
    key = [
        f"--from-literal=accessKeyId={ACCESS_KEY}",
        f"--from-literal=secretAccessKey={SECRET_KEY}",
    ]
    space.kubectl("create", "secret", "generic", "s3-key", *key)
    (typed,) = [block for block in blocks(QUICKSTART, "") if "inferrun init" in block]
    init, start, frame = typed.splitlines()
    model = f"http://counting.{space.name}.svc.cluster.local/v2/models/counting/infer"
    answers = f"iris\n{model}\ns3://{BUCKET}/in.jsonl\ns3://{BUCKET}/results\ns3-key\n"
    async with s3_server(home / "s3", host=bridge) as s3:
        (s3.bucket / "in.jsonl").write_text(
            "".join(f"[{number}, 1]\n" for number in range(RECORDS))
        )
        for command, given in ((init, answers), (start, ""), (frame, "")):
            done = shell(command, home, given=given, AWS_ENDPOINT_URL=s3.url)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert f"[{RECORDS} rows x " in done.stdout
    assert "prediction" in done.stdout
