"""Runs the runner as a Pod does, with a contract, mounted folders and a termination log.

`pod` executes the contract inside the test's process, which takes milliseconds; `process` and
`start` run the real program, for tests of exit codes, signals, the log and memory.
"""

import asyncio
import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferrun.formats.saved_answers import load_answers
from inferrun.plugins import Counts, RunnerError
from inferrun.reasons import Reason
from inferrun.runner_report import SIZES, RunnerResult, parse_report
from inferrun_runner.contract_file import read_contract
from inferrun_runner.errors import first_error
from inferrun_runner.program.execution import execute
from inferrun_runner.program.termination_message import failure, write_result
from inferrun_runner.settings import read_settings

REPOSITORY = Path(__file__).parents[3]
LIMIT = 60.0
"""Maximum seconds that a Pod of a test may run."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a Pod's container ended."""

    code: int
    result: RunnerResult
    stdout: str
    stderr: str

    is_readable: bool = True
    """Whether the container has left a result. Otherwise the control plane asks the store whether
    the run is committed."""

    @property
    def message(self) -> str:
        """The message in the run's status."""
        return self.result.message

    def progress(self) -> list[dict[str, Any]]:  # Any: JSON
        """The counts of the progress lines."""
        return [json.loads(line)["records"] for line in self.stdout.splitlines()]


@dataclass
class Machine:
    """The contract and the folders of one run, which outlive its Pods."""

    folder: Path
    contract: dict[str, Any] = field(default_factory=dict)  # Any: JSON
    environment: dict[str, str] = field(default_factory=dict)
    pods: int = 0

    def __post_init__(self) -> None:
        for name in ("input", "output", "endpoints/input", "endpoints/output", "tmp"):
            (self.folder / name).mkdir(parents=True)

    @property
    def input(self) -> Path:
        """The input claim."""
        return self.folder / "input"

    @property
    def output(self) -> Path:
        """The output claim."""
        return self.folder / "output"

    @property
    def run_folder(self) -> Path:
        """The folder of the run on the output claim."""
        return (
            self.output
            / str(self.contract["output"]["file"]["path"])
            / str(self.contract["jobName"])
        )

    @property
    def manifest(self) -> dict[str, Any]:  # Any: JSON
        """The manifest on the output claim."""
        # Any: JSON
        found: dict[str, Any] = json.loads((self.run_folder / "manifest.json").read_text())
        return found

    @property
    def results(self) -> list[dict[str, Any]]:  # Any: JSON
        """The results on the output claim, which are JSON lines."""
        return lines_in(self.run_folder / "predictions")

    @property
    def errors(self) -> list[dict[str, Any]]:  # Any: JSON
        """The error files on the output claim."""
        return lines_in(self.run_folder / "errors")

    @property
    def saved(self) -> set[int]:
        """The indexes of the records with an answer whose chunk is not committed, on the output
        claim."""
        files = (self.run_folder / "answers").glob("[!.]*")
        return {one.index for file in files for one in load_answers(file.read_bytes())}

    def write_rows(self, rows: Iterable[object], name: str = "data/rows.jsonl") -> None:
        """Write JSON lines to the input claim."""
        (self.input / name).parent.mkdir(parents=True, exist_ok=True)
        (self.input / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def retry(self, ended: "Ended | None", *, number: int = 2) -> None:
        """Make the next Pod one of a new run that retries the last one."""
        before = self.contract
        retried = {"name": "sums", "runId": before["runId"], "jobName": before["jobName"]}
        if ended is not None and ended.code == 0:
            retried["manifestSha256"] = ended.result.output.sha256
        uid = str(uuid.uuid4())
        self.contract = {
            **before,
            "jobId": uid,
            "runId": uid,
            "jobName": f"inf-again-{number}",
            "retryOf": retried,
        }

    def endpoint(self, side: str, keys: Mapping[str, str]) -> None:
        """Mount an endpoint Secret."""
        folder = self.folder / "endpoints" / side
        folder.mkdir(exist_ok=True)
        for key, value in keys.items():
            (folder / key).write_text(value)

    async def pod(self, **environment: str) -> Ended:
        """Execute the contract in this process."""
        settings = read_settings(self._environment(environment))
        reported: list[Counts] = []
        results: list[RunnerResult] = []
        try:
            contract = read_contract(settings.contract)
            run = execute(contract, settings, report=reported.append, record_success=results.append)
            await asyncio.wait_for(run, LIMIT)
        except (RunnerError, ExceptionGroup) as error:
            cause = first_error(error)
            if not isinstance(cause, RunnerError):
                raise
            write_result(
                failure(cause, reported[-1] if reported else None), settings.termination_log
            )
            return _ended(int(cause.code), settings.termination_log)
        write_result(results[0], settings.termination_log)
        return _ended(0, settings.termination_log)

    async def success(self, message: str = "", /, **environment: str) -> Ended:
        """Execute the contract in this process, which must succeed, with that message if there is
        one."""
        ended = await self.pod(**environment)
        assert (ended.code, ended.message) == (0, message or ended.message), ended
        return ended

    async def failure(
        self, code: int, /, *texts: str, reason: str = "", **environment: str
    ) -> Ended:
        """Execute the contract in this process, which must end with that exit code and these texts
        in its message."""
        ended = await self.pod(**environment)
        assert (ended.code, [text for text in texts if text not in ended.message]) == (code, []), (
            ended
        )
        assert ended.result.reason == (reason or ended.result.reason)
        return ended

    async def final_failure(
        self, code: int, /, *texts: str, reason: str = "", **environment: str
    ) -> Ended:
        """Fail so that another attempt would fail in the same way."""
        ended = await self.failure(code, *texts, reason=reason, **environment)
        assert not ended.result.retryable, ended
        return ended

    async def process(self, *program: str, **environment: str) -> Ended:
        """Run the program, or another module with its arguments, and wait for its end."""
        started = await self.start(program or ("inferrun_runner",), environment=environment)
        return await started.end()

    async def start(
        self,
        program: Sequence[str] = ("inferrun_runner",),
        *,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> "Pod":
        """Start the program, optionally through the command `before`."""
        variables = self._environment(environment or {})
        process = await asyncio.create_subprocess_exec(
            *before,
            sys.executable,
            "-m",
            *program,
            cwd=REPOSITORY,
            env=variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return Pod(process, Path(variables["INFERRUN_TERMINATION_LOG"]))

    def environment_of_next_pod(self) -> dict[str, str]:
        """The environment of another program in a Pod of the run."""
        return self._environment({})

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Write the contract and return the environment of the next Pod."""
        self.pods += 1
        path = self.folder / "contract.json"
        path.write_text(json.dumps(self.contract))
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("INFERRUN_")},
            "INFERRUN_CONTRACT": str(path),
            "INFERRUN_INPUT_DIR": str(self.input),
            "INFERRUN_OUTPUT_DIR": str(self.output),
            "INFERRUN_ENDPOINTS_DIR": str(self.folder / "endpoints"),
            "INFERRUN_TERMINATION_LOG": str(self.folder / f"termination-{self.pods}"),
            "INFERRUN_SPOOL_DIR": str(self.folder / "tmp"),
            "pod_uid": f"pod-{self.pods}",
            "INFERRUN_RETRY_SECONDS": "0",
            "INFERRUN_REQUEST_SECONDS": "0",
            "INFERRUN_ALLOWED_ADDRESSES": "127.0.0.0/8",
            "MALLOC_ARENA_MAX": "2",  # as the image sets it; memory is measured
            "MIMALLOC_ALLOW_THP": "0",  # likewise
            **self.environment,
            **more,
        }


@dataclass(frozen=True, slots=True)
class Pod:
    """A running container."""

    process: asyncio.subprocess.Process
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. Unlike asyncio's own method, it does not ask for the exit status, which
        can be read only once."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    async def end(self) -> Ended:
        """Wait until the container has ended."""
        try:
            out, err = await asyncio.wait_for(self.process.communicate(), LIMIT)
        except TimeoutError:
            self.process.kill()
            out, err = await self.process.communicate()
            raise AssertionError(
                f"the Pod did not end within {LIMIT:g} s: {err.decode()[-2000:]}"
            ) from None
        code = self.process.returncode
        assert code is not None
        return _ended(code, self.log, stdout=out.decode(), stderr=err.decode())


def lines_in(folder: Path) -> list[dict[str, Any]]:  # Any: JSON
    """The JSON lines of all files of a folder, in the order of their names."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("[!.]*"))
        for line in path.read_bytes().splitlines()
    ]


async def until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  what is waited for is another process's doing
            await asyncio.sleep(0.01)


def _ended(code: int, log: Path, *, stdout: str = "", stderr: str = "") -> Ended:
    text = log.read_bytes() if log.exists() else b""
    assert len(text) <= SIZES.whole
    found = parse_report(RunnerResult, text.decode())
    result = found or RunnerResult(reason=Reason.RUNNER_FAILED, message=text.decode())
    return Ended(
        code=code, result=result, is_readable=found is not None, stdout=stdout, stderr=stderr
    )
