"""Runs make targets in order, reports the duration of each and stops at the first failure."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .console import duration, info


def run_stages(names: Sequence[str], *, checkout: Path) -> int:
    """The exit code of the first stage that fails, or 0."""
    began = time.monotonic()
    for position, name in enumerate(names, start=1):
        info(f"==> {name} (stage {position} of {len(names)})")
        started = time.monotonic()
        code = subprocess.run(
            ["make", "--no-print-directory", name], cwd=checkout, check=False
        ).returncode
        took = duration(time.monotonic() - started)
        if code != 0:
            info(f"==> {name}: failed after {took}; the remaining stages were skipped")
            return code
        info(f"==> {name}: passed in {took}")
    info(f"==> all {len(names)} stages passed in {duration(time.monotonic() - began)}")
    return 0
