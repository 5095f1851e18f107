"""Resolves the declared dependencies into requirements/*.txt, with versions and hashes but without
registry addresses.

Versions that are locked already are kept while they satisfy pyproject.toml; `--upgrade` picks the
newest ones.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tools.devcluster.layout import CHECKOUT
from tools.devcluster.venv import uv_program

LIBRARY, RUNNER = "pyproject.toml", "inferrun_runner/pyproject.toml"

BESIDE = {
    "control": (LIBRARY,),
    "runner": (LIBRARY, RUNNER),
    "local": (LIBRARY, RUNNER),
    "dev": (LIBRARY, RUNNER),
}
"""What is locked together with the dependencies of these distributions, because it is installed
beside them."""

OF_GROUP = {"runner": (), "local": ("--extra", "local")}
"""What is locked besides, if it is not the group of that name."""

ALONE = ("build", "bootstrap", "kserve-server", "triton-client", "node")
"""Groups that are installed before the library or without it."""

PYTHON = "3.11"
"""The oldest supported version: what resolves for it is installable on newer ones."""


def lock_command(group: str, *, uv: str, upgrade: bool) -> list[str]:
    """The command that writes the lock file of a dependency group."""
    own = OF_GROUP.get(group, ("--group", group))
    command = [
        *(uv, "pip", "compile"),
        *BESIDE.get(group, ()),
        *own,
        "--output-file",
        f"requirements/{group}.txt",
    ]
    command += ["--quiet", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--no-emit-package", "inferrun", "--no-emit-package", "inferrun-runner"]
    command += ["--python-version", PYTHON, "--custom-compile-command", "make lock"]
    return [*command, "--upgrade"] if upgrade else command


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every lock file; the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.locks", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="pick the newest versions")
    upgrade = parser.parse_args(arguments).upgrade
    uv = str(uv_program())
    for group in (*BESIDE, *ALONE):
        code = subprocess.run(
            lock_command(group, uv=uv, upgrade=upgrade), cwd=CHECKOUT, check=False
        ).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
