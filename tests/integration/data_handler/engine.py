"""The Docker engine of these tests, as the tooling hands it out: the machine's, or one that lives as long as the tests.

The tooling runs as a process that ends its engine when its standard input ends, so that no engine outlives a test run that was
killed. An engine that cannot be had fails the tests with the tooling's own words; nothing is skipped.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CHECKOUT: Final = Path(__file__).resolve().parents[3]
ANSWER: Final = "DOCKER_HOST="
ENDS_WITHIN_SECONDS: Final = 60


class NoEngine(Exception):
    """There is no Docker engine to be had; says why, and what to do about it."""


@contextmanager
def docker_engine(images: Mapping[str, Path]) -> Iterator[str]:
    """The address of an engine that has these images, each built from its folder. Raises NoEngine."""
    command = [sys.executable, "-m", "tools.devcluster", "docker"]
    for name, folder in images.items():
        command += ["--image", name, str(folder)]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            # Ctrl-C at the terminal ends the tests, which end their containers, and then the engine.
            start_new_session=True,
        ) as tooling,
    ):
        assert tooling.stdin
        assert tooling.stdout
        try:
            yield _address(tooling.stdout, complaints)
        finally:
            tooling.stdin.close()
            tooling.wait(ENDS_WITHIN_SECONDS)


def _address(output: IO[str], complaints: IO[str]) -> str:
    """No deadline: a cold machine builds images for minutes, and each of the tooling's steps has a deadline of its own."""
    for line in output:
        if line.startswith(ANSWER):
            return line.removeprefix(ANSWER).strip()
    complaints.seek(0)
    raise NoEngine(complaints.read())
