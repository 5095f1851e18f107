"""The demo's terminal output: headings, commands with their output, waits and checks.

Every command that is shown is executed exactly as shown. The first check that fails ends the demo
with a one-line message.
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
POLL_SECONDS = 0.5
PROGRESS_SECONDS = 10.0
"""Interval between progress lines while waiting."""

T = TypeVar("T")


class DemoFailed(Exception):
    """Something did not happen as expected. The message states what was expected and what was
    found."""


@dataclass(frozen=True)
class Terminal:
    """Executes commands in the checkout and prints what the user sees."""

    checkout: Path
    environment: Mapping[str, str]

    @contextmanager
    def scene(self, title: str, *, story: str) -> Iterator[None]:
        print(f"\n{'━' * WIDTH}\n{title}\n{'━' * WIDTH}")
        print(textwrap.fill(" ".join(story.split()), WIDTH))
        began = time.monotonic()
        yield
        print(f"\n  ({seconds_since(began)})")

    def info(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def explain(self, text: str) -> None:
        """Print a paragraph about what comes next."""
        print(f"\n{textwrap.fill(' '.join(text.split()), WIDTH)}", flush=True)

    def passed(self, text: str) -> None:
        print(f"  ✓ {text}", flush=True)

    def run(self, command: str, *, timeout: float = 120) -> str:
        """Show a command, execute it, and show its output as it is produced. Raises DemoFailed if
        it fails."""
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
            timer = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            try:
                output = "".join(_printed(process.stdout or ()))
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
            finally:
                timer.cancel()
        if code:
            raise DemoFailed(
                f"the command above failed with exit code {code} after {seconds_since(began)}: {last_line(output)}"
            )
        return output

    def read(self, command: str, *, stdin: str | None = None, timeout: float = 60) -> str:
        """The output of a command that is not shown. Raises DemoFailed if it fails."""
        done = self._execute(command, timeout=timeout, stdin=stdin)
        if done.returncode:
            raise DemoFailed(
                f"`{command}` failed with exit code {done.returncode}: {last_line(done.stderr)}"
            )
        return done.stdout

    def succeeds(self, command: str) -> bool:
        return self._execute(command, timeout=60).returncode == 0

    def wait(
        self,
        what: str,
        probe: Callable[[], T | None],
        *,
        timeout: float,
        state: Callable[[], str] = str,
    ) -> T:
        """Poll until the probe returns something; `state` describes the current situation
        meanwhile."""
        began = time.monotonic()
        printed = began
        print(f"  … waiting until {what} (at most {timeout:.0f} s)", flush=True)
        while (found := probe()) is None:
            passed = time.monotonic() - began
            if passed > timeout:
                raise DemoFailed(
                    f"timed out after {timeout:.0f} s waiting until {what}; last state: {state() or 'none'}"
                )
            if time.monotonic() - printed >= PROGRESS_SECONDS:
                printed = time.monotonic()
                print(f"    {passed:3.0f} s: {state()}", flush=True)
            time.sleep(POLL_SECONDS)
        self.passed(f"{what} (after {seconds_since(began)})")
        return found

    def check(self, holds: bool, text: str, *, found: str = "") -> None:  # noqa: FBT001 -- reads as a sentence
        """Raise DemoFailed unless the condition holds."""
        if not holds:
            raise DemoFailed(f"expected: {text}" + (f"; found: {found}" if found else ""))
        self.passed(text)

    def _execute(
        self, command: str, *, timeout: float, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self.checkout,
                env=dict(self.environment),
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise DemoFailed(f"`{command}` timed out after {timeout:.0f} s") from late


def _printed(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        print(f"  {line.rstrip()}", flush=True)
        yield line


def seconds_since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def quoted(text: str) -> str:
    return shlex.quote(text)
