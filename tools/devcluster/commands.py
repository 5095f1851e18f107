"""Runs other programs and turns a failure into a DevClusterError that shows their output."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import DevClusterError

LAST_LINES = 15


def run(
    command: Sequence[str | Path],
    *,
    fix: str = "see the output above",
    stdin: str | None = None,
    extra_env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 600,
) -> str:
    """Run a program and return its standard output. Raises DevClusterError unless it exits with 0
    within `timeout` seconds."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cwd,
            env={**os.environ, **(extra_env or {})},
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise DevClusterError(f"{words[0]} is not installed", fix=fix) from error
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(
            f"{shorten(words)} timed out after {timeout:.0f} s", fix=fix
        ) from error
    if done.returncode != 0:
        raise DevClusterError(
            f"{shorten(words)} failed with exit code {done.returncode}",
            fix=fix,
            detail=last_lines(done.stderr or done.stdout),
        )
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a quick check exits with 0; a missing program counts as a failure."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        return False
    try:
        done = subprocess.run(
            words, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def shorten(words: Sequence[str]) -> str:
    text = " ".join([Path(words[0]).name, *words[1:]])
    return text if len(text) <= 100 else text[:97] + "..."


def last_lines(text: str, *, count: int = LAST_LINES) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])
