"""`python -m runner`: the edge of the process. It reads the environment, runs one contract, and exits with a documented code.

The process ends by `os._exit` once the result is written: a thread that hangs in a system call of a lost file system must not
keep it past its deadline or its grace period. For the same reason a timer outside the event loop stands behind the deadline.
"""

import time

STARTED = time.monotonic()  # the deadline counts from here: before the imports

# ruff: noqa: E402
import asyncio
import logging
import os
import signal
import sys
import threading
from typing import NoReturn

import uvloop

from inferrun.exitcodes import ExitCode
from inferrun.logs import log_as_json
from inferrun.runner_report import RunnerResult
from runner.cost import spent
from runner.errors import DeadlineReached, RunnerError, Stopped, first_error
from runner.execution import execute
from runner.progress import ProgressLog
from runner.result_file import failure, write_result
from runner.settings import Settings, read_settings
from runner.values import Counts
from runner.work_order import read_contract

_log = logging.getLogger("runner")

_WATCHDOG_SECONDS = 5.0
"""Seconds past the deadline after which the process ends even when its event loop does not turn."""


class Process:
    """What every way out of the process shares: where the result goes, and how far the run is."""

    def __init__(self) -> None:
        self.settings = Settings()
        self._counts: Counts | None = None
        self._progress: ProgressLog | None = None

    def configure(self, settings: Settings) -> None:
        """Take the settings, once they are known to be good."""
        self.settings = settings
        self._progress = ProgressLog(sys.stdout, every=settings.progress_seconds, clock=time.monotonic)

    def tell(self, counts: Counts) -> None:
        """Remember how far the run is, and log it now and then."""
        self._counts = counts
        if self._progress:
            self._progress.tell(counts)

    def leave(self, result: RunnerResult, code: ExitCode) -> NoReturn:
        """Write the result and end the process at once."""
        write_result(result, self.settings.termination_log)
        if self._progress and self._counts:
            self._progress.tell_now(self._counts)
        how = {"exit_code": int(code), "reason": str(result.reason), "detail": result.message, **spent()}
        _log.log(logging.INFO if code is ExitCode.DONE else logging.ERROR, "run ended", extra=how)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def fail(self, error: BaseException) -> NoReturn:
        """End the process with the code of an error; one that is not ours leaves its traceback in the log."""
        cause = first_error(error)
        if not isinstance(cause, RunnerError):
            _log.error("internal error", exc_info=cause)
        code = cause.code if isinstance(cause, RunnerError) else ExitCode.INTERNAL
        self.leave(failure(cause, self._counts), code)


def main() -> NoReturn:
    """Run the contract."""
    log_as_json(sys.stderr)
    process = Process()
    try:
        process.configure(read_settings(os.environ))
        _watch_deadline(process)
        uvloop.run(_run(process))
    except BaseException as error:  # noqa: BLE001  the edge of the process
        process.fail(error)
    raise AssertionError("the run came back without leaving")


async def _run(process: Process) -> NoReturn:
    """Every way out of the run leaves from inside the loop: closing the loop would wait for its threads."""
    sigterm = _cancel_on_sigterm()
    limit = asyncio.timeout(_seconds_left(process.settings))
    try:
        async with limit:
            contract = read_contract(process.settings.contract)
            result = await execute(contract, process.settings, tell=process.tell)
    except BaseException as error:  # noqa: BLE001  the edge of the process
        if sigterm.is_set():
            process.fail(Stopped("stopped by SIGTERM; what was committed stays"))
        process.fail(_deadline_reached(process.settings) if limit.expired() else error)
    process.leave(result, ExitCode.DONE)


def _cancel_on_sigterm() -> asyncio.Event:
    arrived = asyncio.Event()
    running = asyncio.current_task()

    def stop() -> None:
        arrived.set()
        if running:
            running.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    return arrived


def _seconds_left(settings: Settings) -> float | None:
    """Seconds of the launch's time that are not used yet; None: no limit."""
    if settings.seconds_left is None:
        return None
    return max(0.0, settings.seconds_left - (time.monotonic() - STARTED))


def _deadline_reached(settings: Settings) -> DeadlineReached:
    return DeadlineReached(f"the deadline was reached after {settings.seconds_left:g} s; what was committed stays")


def _watch_deadline(process: Process) -> None:
    """A thread that ends the process when the event loop cannot."""
    left = _seconds_left(process.settings)
    if left is not None:
        watchdog = threading.Timer(left + _WATCHDOG_SECONDS, lambda: process.fail(_deadline_reached(process.settings)))
        watchdog.daemon = True
        watchdog.start()


if __name__ == "__main__":
    main()
