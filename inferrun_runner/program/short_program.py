"""The frame of the programs besides the run itself: one task, whose result is the termination
message and the exit code."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

from inferrun.exitcodes import ExitCode
from inferrun.logs import log_as_json
from inferrun.plugins import RunnerError
from inferrun_runner.network.tls import trust
from inferrun_runner.program.termination_message import write_message
from inferrun_runner.settings import Settings, read_settings, settings_for_failures

_log = logging.getLogger(__name__)

Task = Callable[[Settings], Awaitable[tuple[str, ExitCode]]]


def run_short_program(task: Task) -> NoReturn:
    """Execute a task with the settings of the environment, and exit."""
    log_as_json(sys.stderr)
    asyncio.run(_run(task))
    raise AssertionError("the program returned without exiting")


async def _run(task: Task) -> NoReturn:
    """Exits from inside the event loop and at once: a thread that hangs on a volume or in a request
    must not delay the exit."""
    settings = settings_for_failures(os.environ)
    try:
        settings = read_settings(os.environ)
        trust(settings.ca_bundle, folder=settings.spool_dir)
        message, code = await task(settings)
    except RunnerError as error:
        message, code = str(error), error.code
    write_message(message, settings.termination_log)
    level = logging.INFO if code is ExitCode.DONE else logging.ERROR
    _log.log(level, "the program ended", extra={"exit_code": int(code), "detail": message})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
