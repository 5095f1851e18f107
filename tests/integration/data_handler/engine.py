"""The Docker engine for these tests, provided by tools.devcluster: the machine's, or a temporary
one.

tools.devcluster runs as a child process that stops a temporary engine when its standard input is
closed, so an engine never outlives a test run, even if it is killed. If no engine is available, the
tests fail with its error message; none is skipped.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CHECKOUT: Final = Path(__file__).resolve().parents[3]
ADDRESS_PREFIX: Final = "DOCKER_HOST="
STOP_SECONDS: Final = 60


class EngineUnavailable(Exception):
    """No Docker engine is available; the message contains the reason and the fix."""


@contextmanager
def docker_engine(images: Mapping[str, Path]) -> Iterator[str]:
    """The address of an engine that has these images, each built from its folder. Raises
    EngineUnavailable."""
    command = [sys.executable, "-m", "tools.devcluster", "docker"]
    for name, folder in images.items():
        command += ["--image", name, str(folder)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Keeps Ctrl-C from stopping the engine before the tests have removed their containers.
            start_new_session=True,
        ) as tooling,
    ):
        assert tooling.stdin
        assert tooling.stdout
        try:
            yield _address(tooling.stdout, errors)
        finally:
            tooling.stdin.close()
            tooling.wait(STOP_SECONDS)


def _address(output: IO[str], errors: IO[str]) -> str:
    """No deadline: the first build of the images takes minutes, and each step of tools.devcluster
    has its own deadline."""
    for line in output:
        if line.startswith(ADDRESS_PREFIX):
            return line.removeprefix(ADDRESS_PREFIX).strip()
    errors.seek(0)
    raise EngineUnavailable(errors.read())
