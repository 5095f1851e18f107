"""Resolves the dependencies declared in pyproject.toml into requirements/*.txt, with versions and
hashes but without registry addresses.

Versions that are locked already are kept while they satisfy pyproject.toml; `--upgrade` picks the
newest ones.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tools.devcluster.layout import CHECKOUT
from tools.devcluster.venv import uv_program

WITH_LIBRARY = ("control", "runner", "dev")
"""Groups that are locked together with the dependencies of the library itself, because they are
installed beside it."""

ALONE = ("build", "bootstrap", "kserve-server", "triton-client", "node")
"""Groups that are installed before the library or without it."""

PYTHON = "3.11"
"""The oldest supported version: what resolves for it is installable on newer ones."""


def lock_command(group: str, *, uv: str, upgrade: bool) -> list[str]:
    """The command that writes the lock file of a dependency group."""
    source = ["pyproject.toml"] if group in WITH_LIBRARY else []
    command = [
        uv,
        "pip",
        "compile",
        *source,
        "--group",
        group,
        "--output-file",
        f"requirements/{group}.txt",
    ]
    command += ["--quiet", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--python-version", PYTHON, "--custom-compile-command", "make lock"]
    return [*command, "--upgrade"] if upgrade else command


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every lock file; the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.locks", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="pick the newest versions")
    upgrade = parser.parse_args(arguments).upgrade
    uv = str(uv_program())
    for group in (*WITH_LIBRARY, *ALONE):
        code = subprocess.run(
            lock_command(group, uv=uv, upgrade=upgrade), cwd=CHECKOUT, check=False
        ).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
