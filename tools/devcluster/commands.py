"""Runs other programs and turns their failure into a Problem that shows what they said."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .problem import Problem

LAST_LINES = 15


def run(
    command: Sequence[str | Path],
    *,
    cure: str = "see the lines above",
    given: str | None = None,
    extra_env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 600,
) -> str:
    """Run a program to its end and return what it printed; anything but exit 0 is a Problem."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env={**os.environ, **(extra_env or {})},
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise Problem(f"{words[0]} is not installed", cure=cure) from error
    except subprocess.TimeoutExpired as error:
        raise Problem(f"{short(words)} took longer than {seconds:.0f} s", cure=cure) from error
    if done.returncode != 0:
        raise Problem(
            f"{short(words)} failed with exit code {done.returncode}",
            cure=cure,
            detail=last_lines(done.stderr or done.stdout),
        )
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a quick check passes; a missing program counts as no."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        return False
    try:
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def short(words: Sequence[str]) -> str:
    text = " ".join([Path(words[0]).name, *words[1:]])
    return text if len(text) <= 100 else text[:97] + "..."


def last_lines(text: str, *, count: int = LAST_LINES) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])
