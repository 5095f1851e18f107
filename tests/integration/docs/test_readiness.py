"""The commands of the readiness page work on a real API server, and its names exist."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun.run_defaults import Defaults
from tests.integration.cli.conftest import space
from tests.integration.cli.run_space import RunSpace
from tests.integration.cli.stage import run_command
from tests.integration.conftest import CLUSTER_FILES
from tests.unit.docs.pages import DOCS
from tools.reference import chart

__all__ = ["space"]

PAGE = (DOCS / "readiness.md").read_text(encoding="utf-8")
USERS, OPERATORS = PAGE.split("## Features for operators")
PROGRAMS = ("inferrun", "kubectl", "helm")
TIMES = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z"}


def spans(text: str, *columns: int) -> Iterator[str]:
    """What is in backticks in these columns of the page's table."""
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)[2:]
    assert len(rows) >= 8
    for row in rows:
        cells = row.split("|")
        yield from (span for column in columns for span in re.findall(r"`([^`]+)`", cells[column]))


@pytest.fixture
async def team(space: RunSpace) -> RunSpace:
    """The objects that the page names."""
    await space.create_config("iris")
    await space.create("iris-monday")
    await space.create("iris-nightly", schedule="0 2 * * *")
    await space.create(
        "iris-november", configRef=None, backfill={"schedule": "iris-nightly", **TIMES}
    )
    return space


@pytest.mark.thorough
def test_every_command_is_executed(team: RunSpace) -> None:
    kubectl = str(Path(os.environ.get("INFERRUN_BIN", CLUSTER_FILES / "bin")) / "kubectl")
    failed, executed = {}, 0
    for span in [*spans(USERS, 2, 4), *spans(OPERATORS, 2)]:
        program, *words = shlex.split(span.replace("team-a", team.name))
        # which needs an installation, and has tests of its own
        if program not in PROGRAMS or words[0] == "doctor":
            continue
        words += ["--kubeconfig", str(team.kubeconfig)]
        if program == "inferrun":
            printed = run_command(*words)
            code, text = int(printed.code), printed.err
        else:
            ended = subprocess.run(
                [kubectl, *words], capture_output=True, text=True, check=False, timeout=60
            )
            code, text = ended.returncode, ended.stderr
        executed += 1
        if code:
            failed[span] = text
    assert executed >= 20
    assert failed == {}


def test_every_field_and_setting_exists() -> None:
    specs = [
        one()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for one in (inference_run, inference_config)
    ]
    settings = {field.alias or name for name, field in Defaults.model_fields.items()}
    for span in [*spans(USERS, 1, 3)]:
        found = [one["properties"]["spec"] for one in specs]
        for name in span.split("."):
            found = [one["properties"][name] for one in found if name in one.get("properties", {})]
        assert found or span in settings, span


def test_every_value_exists() -> None:
    known = {row[0].strip("`") for row in chart.rows(chart.VALUES.read_text(encoding="utf-8"))}
    values = [
        *spans(OPERATORS, 1, 3),
        *(span for span in spans(OPERATORS, 4) if not span.startswith(PROGRAMS)),
    ]
    for span in values:
        name = span.split("=")[0]
        assert any(one == name or one.startswith(f"{name}.") for one in known), span


def test_every_metric_exists() -> None:
    reference = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = [
        span for span in [*spans(USERS, 2), *spans(OPERATORS, 2)] if span.startswith("inferrun_")
    ]
    assert len(named) >= 8
    assert [name for name in named if f"| `{name}` |" not in reference] == []
