"""The rules fire in time, and not without cause, on series that promtool plays."""

import subprocess
from pathlib import Path

import pytest

from tools.devcluster.binaries import PROMETHEUS, build_missing, program_dir

pytestmark = pytest.mark.thorough


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    build_missing(modules=(PROMETHEUS,))
    promtool = program_dir(PROMETHEUS) / "promtool"
    rules = Path(__file__).with_name("rules_test.yaml")
    done = subprocess.run(
        [promtool, "test", "rules", rules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
