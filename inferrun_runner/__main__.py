"""`python -m inferrun_runner`: reads the environment, executes one contract and exits with a documented
code.

The process ends with `os._exit` once the result is written: a thread that hangs in a system call on
a lost file system must not delay the exit beyond the deadline or the grace period. For the same
reason a timer outside the event loop backs up the deadline.
"""

import os
import signal
import time

# taken before the imports, because the deadline counts from the start of the process
STARTED = time.monotonic()

# until the event loop handles it: process 1 would ignore it
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))

# ruff: noqa: E402
import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import NoReturn

import uvloop

from inferrun.exitcodes import ExitCode
from inferrun.logs import log_as_json
from inferrun.plugins import Counts, RunnerError
from inferrun.runner_report import END_MESSAGE, RunnerResult
from inferrun_runner.contract_file import read_contract
from inferrun_runner.errors import CommitUnclear, DeadlineReached, Stopped, first_error
from inferrun_runner.network import spans
from inferrun_runner.network.tls import trust
from inferrun_runner.program.execution import execute
from inferrun_runner.program.process_tuning import use_batch_scheduling
from inferrun_runner.program.progress_log import ProgressLog
from inferrun_runner.program.termination_message import failure, write_result
from inferrun_runner.settings import Settings, read_settings, settings_for_failures

_log = logging.getLogger("runner")

_KEPT = "committed chunks are kept"

_WATCHDOG_SECONDS = 5.0
"""Seconds after the deadline at which the process ends even if its event loop is blocked."""


class Process:
    """The state that every exit path needs: the settings and the latest counts."""

    def __init__(self) -> None:
        self.settings = settings_for_failures(os.environ)
        self._counts: Counts | None = None
        self._success: RunnerResult | None = None
        self._code: ExitCode | None = None
        self.progress: ProgressLog | None = None

    def report(self, counts: Counts) -> None:
        """Store the latest counts and log them from time to time."""
        self._counts = counts
        if self.progress:
            self.progress.report(counts)

    def record_success(self, result: RunnerResult) -> None:
        """Store the result of the committed run, which no later error or signal changes."""
        self._success = result

    def exit(self, result: RunnerResult, code: ExitCode, *, is_known: bool = True) -> NoReturn:
        """Write the result and end the process immediately. `is_known`: whether it is known if the
        run is committed.

        The result that was written first counts: the watchdog may call this while the last spans
        are delivered.
        """
        if self._code is not None:
            os._exit(self._code)
        write_result(result, self.settings.termination_log, is_known=is_known)
        if self.progress and self._counts:
            self.progress.report_now(self._counts)
        fields = {
            "exit_code": int(code),
            "reason": str(result.reason),
            "detail": result.message,
            **_resource_usage(),
        }
        _log.log(
            logging.INFO if code is ExitCode.DONE else logging.ERROR, END_MESSAGE, extra=fields
        )
        sys.stdout.flush()
        sys.stderr.flush()
        self._code = code
        spans.stop()
        os._exit(code)

    def succeed(self) -> NoReturn:
        """End the process after the run was committed."""
        if self._success is None:
            self.fail(RunnerError("the run ended without a result"))
        self.exit(self._success, ExitCode.DONE)

    def fail(self, error: BaseException, *, is_known: bool = True) -> NoReturn:
        """End the process with an error's exit code, unless the run is committed. Logs the
        traceback of an unexpected error."""
        if self._success is not None:
            self.succeed()
        cause = first_error(error)
        if not isinstance(cause, RunnerError):
            _log.error("internal error", exc_info=cause)
        code = cause.code if isinstance(cause, RunnerError) else ExitCode.INTERNAL
        self.exit(failure(cause, self._counts), code, is_known=is_known)


def main() -> NoReturn:
    """Execute the contract and exit."""
    log_as_json(sys.stderr)
    process = Process()
    try:
        process.settings = read_settings(os.environ)
        process.progress = ProgressLog(
            sys.stdout, every=process.settings.progress_seconds, clock=time.monotonic
        )
        if (left := _seconds_left(process.settings)) is not None:
            late = _deadline_reached(process.settings, "whether the run is committed is not known")
            watchdog = threading.Timer(
                left + _WATCHDOG_SECONDS, lambda: process.fail(late, is_known=False)
            )
            watchdog.daemon = True
            watchdog.start()
        use_batch_scheduling()
        uvloop.run(_run(process))
    except BaseException as error:  # noqa: BLE001  the top level of the process
        process.fail(error)
    raise AssertionError("the run returned without exiting")


async def _run(process: Process) -> NoReturn:
    """Execute the contract. Exits from inside the event loop, because closing the loop would wait
    for its threads."""
    sigterm = _cancel_on_sigterm()
    limit = asyncio.timeout(_seconds_left(process.settings))
    try:
        async with limit:
            trust(process.settings.ca_bundle, folder=process.settings.spool_dir)
            contract = read_contract(process.settings.contract)
            spans.start(process.settings)
            await execute(
                contract,
                process.settings,
                report=process.report,
                record_success=process.record_success,
            )
    except BaseException as error:  # noqa: BLE001  the top level of the process
        cause = first_error(error)
        is_known = not isinstance(cause, CommitUnclear)
        kept = _KEPT if is_known else str(cause)
        if sigterm.is_set():
            process.fail(Stopped(f"stopped by SIGTERM; {kept}"), is_known=is_known)
        process.fail(
            _deadline_reached(process.settings, kept) if limit.expired() else error,
            is_known=is_known,
        )
    process.succeed()


def _resource_usage() -> dict[str, float]:
    """Return `cpu_seconds` and, if the kernel reports it, `peak_memory_mib`. Users set `resources`
    by these figures."""
    used = {"cpu_seconds": round(time.process_time(), 2)}
    # not ru_maxrss, whose initial value is the memory of the parent process
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    peaks = [float(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return {**used, "peak_memory_mib": round(peaks[0] / 1024, 1)} if peaks else used


def _cancel_on_sigterm() -> asyncio.Event:
    received = asyncio.Event()
    running = asyncio.current_task()

    def stop() -> None:
        received.set()
        if running:
            running.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    return received


def _seconds_left(settings: Settings) -> float | None:
    if settings.seconds_left is None:
        return None
    return max(0.0, settings.seconds_left - (time.monotonic() - STARTED))


def _deadline_reached(settings: Settings, kept: str = _KEPT) -> DeadlineReached:
    return DeadlineReached(f"deadline reached after {settings.seconds_left:g} s; {kept}")


if __name__ == "__main__":
    main()
