"""What a person sees of the demo: headings, the commands as they would be typed, what is waited for, what holds.

Everything that is shown as a command is run, exactly as shown. A promise that is not kept ends the demo with one line.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

WIDTH = 110
LOOK_AGAIN = 0.5
"""Seconds between two looks at something that is waited for."""
TELL_AGAIN = 10.0
"""Seconds between two lines of a long wait."""

T = TypeVar("T")


class BrokenPromise(Exception):
    """Something that the demo promised did not happen. The text says what, and what was seen instead."""


@dataclass(frozen=True)
class Stage:
    """One terminal: where commands are run and where their output goes."""

    checkout: Path
    environment: Mapping[str, str]

    @contextmanager
    def scene(self, title: str, *, story: str) -> Iterator[None]:
        print(f"\n{'━' * WIDTH}\n{title}\n{'━' * WIDTH}")
        print(textwrap.fill(" ".join(story.split()), WIDTH))
        began = time.monotonic()
        yield
        print(f"\n  ({seconds_since(began)})")

    def say(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def look_for(self, text: str) -> None:
        """A remark on what comes next."""
        print(f"\n{textwrap.fill(' '.join(text.split()), WIDTH)}", flush=True)

    def kept(self, text: str) -> None:
        print(f"  ✓ {text}", flush=True)

    def type(self, command: str, *, within: float = 120) -> str:
        """Show a command, run it, show what it says while it says it."""
        print(f"\n$ {command}", flush=True)
        began = time.monotonic()
        with subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.checkout,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            late = threading.Timer(within, os.killpg, (process.pid, signal.SIGKILL))
            late.start()
            try:
                said = "".join(_shown(process.stdout or ()))
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
            finally:
                late.cancel()
        if code:
            raise BrokenPromise(f"the command above ended with {code} after {seconds_since(began)}: {last_line(said)}")
        return said

    def read(self, command: str, *, given: str | None = None, within: float = 60) -> str:
        """The output of a command that is not part of the story."""
        said = self._run(command, within=within, given=given)
        if said.returncode:
            raise BrokenPromise(f"`{command}` ended with {said.returncode}: {last_line(said.stderr)}")
        return said.stdout

    def works(self, command: str) -> bool:
        return self._run(command, within=60).returncode == 0

    def wait(self, what: str, look: Callable[[], T | None], *, within: float, now: Callable[[], str] = str) -> T:
        """Look until there is an answer; `now` tells what is seen meanwhile."""
        began = time.monotonic()
        told = began
        print(f"  … {what} (at most {within:.0f} s)", flush=True)
        while (found := look()) is None:
            passed = time.monotonic() - began
            if passed > within:
                raise BrokenPromise(f"{what}: not within {within:.0f} s; at the end: {now() or 'nothing'}")
            if time.monotonic() - told >= TELL_AGAIN:
                told = time.monotonic()
                print(f"    {passed:3.0f} s: {now()}", flush=True)
            time.sleep(LOOK_AGAIN)
        self.kept(f"{what}: after {seconds_since(began)}")
        return found

    def promise(self, holds: bool, text: str, *, but: str = "") -> None:  # noqa: FBT001 - reads as a sentence
        if not holds:
            raise BrokenPromise(f"not so: {text}" + (f"; {but}" if but else ""))
        self.kept(text)

    def _run(self, command: str, *, within: float, given: str | None = None) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self.checkout,
                env=dict(self.environment),
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                text=True,
                timeout=within,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise BrokenPromise(f"`{command}` took longer than {within:.0f} s") from late


def _shown(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        print(f"  {line.rstrip()}", flush=True)
        yield line


def seconds_since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def quoted(text: str) -> str:
    return shlex.quote(text)
