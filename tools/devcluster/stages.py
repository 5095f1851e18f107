"""Runs make targets one after the other, names and times each, and stops at the first that fails."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .narration import duration, say


def run_stages(names: Sequence[str], *, checkout: Path) -> int:
    """The exit code of the first stage that fails, else 0."""
    began = time.monotonic()
    for position, name in enumerate(names, start=1):
        say(f"==> {name} (stage {position} of {len(names)})")
        started = time.monotonic()
        code = subprocess.run(["make", "--no-print-directory", name], cwd=checkout, check=False).returncode
        took = duration(time.monotonic() - started)
        if code != 0:
            say(f"==> {name}: failed after {took}; the stages after it were not run")
            return code
        say(f"==> {name}: passed in {took}")
    say(f"==> all {len(names)} stages passed in {duration(time.monotonic() - began)}")
    return 0
