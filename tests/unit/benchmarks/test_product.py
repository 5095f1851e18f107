"""The interpreter on which the benchmarks run shim and worker."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.burst.product import interpreter


def test_the_interpreter_loads_the_packages_of_this_environment() -> None:
    python, packages = interpreter()
    code = "import sys, temporalio, orjson; print(*sys.version_info[:2])"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": packages}
    answer = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [str(part) for part in sys.version_info[:2]]


def test_without_a_python_of_the_same_version_the_programs_run_on_that_of_the_benchmark(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    assert interpreter(system=other)[0] == sys.executable
    other.write_text("#!/bin/sh\necho 3 1\n")
    other.chmod(0o755)
    assert interpreter(system=other)[0] == sys.executable
