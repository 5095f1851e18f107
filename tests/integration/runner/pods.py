"""Runs `python -m runner` as a Pod would: a process with a contract, mounted folders and a termination log."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferrun.outcome import RunnerResult

REPOSITORY = Path(__file__).parents[3]
LIMIT = 60.0
"""Seconds that a Pod of a test may take at most."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a Pod's container ended."""

    code: int
    result: RunnerResult
    stdout: str
    stderr: str

    @property
    def message(self) -> str:
        """What a person reads in the status."""
        return self.result.message

    def progress(self) -> list[dict[str, Any]]:  # Any: JSON
        """The counts of the progress lines."""
        return [json.loads(line)["records"] for line in self.stdout.splitlines()]


@dataclass
class Machine:
    """One run's world on disk, which outlives its Pods."""

    folder: Path
    contract: dict[str, Any] = field(default_factory=dict)  # Any: JSON
    environment: dict[str, str] = field(default_factory=dict)
    pods: int = 0

    def __post_init__(self) -> None:
        for name in ("input", "output", "endpoints/input", "endpoints/output", "tmp"):
            (self.folder / name).mkdir(parents=True)

    @property
    def input(self) -> Path:
        """The claim that is read."""
        return self.folder / "input"

    @property
    def output(self) -> Path:
        """The claim that is written."""
        return self.folder / "output"

    def endpoint(self, side: str, keys: Mapping[str, str]) -> None:
        """Mount an endpoint Secret."""
        for key, value in keys.items():
            (self.folder / "endpoints" / side / key).write_text(value)

    async def pod(self, **environment: str) -> Ended:
        """Run one Pod to its end."""
        started = await self.start(**environment)
        return await started.end()

    async def start(self, **environment: str) -> "Pod":
        """Start a Pod."""
        self.pods += 1
        log = self.folder / f"termination-{self.pods}"
        path = self.folder / "contract.json"
        path.write_text(json.dumps(self.contract))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "runner",
            cwd=REPOSITORY,
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("INFERRUN_")},
                "INFERRUN_CONTRACT": str(path),
                "INFERRUN_INPUT_DIR": str(self.input),
                "INFERRUN_OUTPUT_DIR": str(self.output),
                "INFERRUN_ENDPOINTS_DIR": str(self.folder / "endpoints"),
                "INFERRUN_TERMINATION_LOG": str(log),
                "INFERRUN_SPOOL_DIR": str(self.folder / "tmp"),
                "pod_uid": f"pod-{self.pods}",
                "INFERRUN_RETRY_SECONDS": "0",
                **self.environment,
                **environment,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return Pod(process, log)


@dataclass(frozen=True, slots=True)
class Pod:
    """A container that runs."""

    process: asyncio.subprocess.Process
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def end(self) -> Ended:
        """Wait for its end."""
        try:
            out, err = await asyncio.wait_for(self.process.communicate(), LIMIT)
        except TimeoutError:
            self.process.kill()
            out, err = await self.process.communicate()
            raise AssertionError(f"the Pod did not end within {LIMIT:g} s: {err.decode()[-2000:]}") from None
        code = self.process.returncode
        assert code is not None
        text = self.log.read_text() if self.log.exists() else ""
        result = (
            RunnerResult.model_validate_json(text) if text else RunnerResult(reason="RunnerFailed", message="(none)")
        )
        assert len(text.encode()) <= 3072
        return Ended(code=code, result=result, stdout=out.decode(), stderr=err.decode())
