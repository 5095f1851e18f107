"""`python -m runner.verify`: asks the output store whether the run is committed, and exits with 0 once it has an answer.

The control plane starts it if a Pod left no readable result. With `--final`, no Pod of the run follows: a run that is not
committed is aborted in the store, so that a Pod which was believed lost cannot commit it later. Reads neither the input
nor the model. The answer is the termination message.
"""

import asyncio
import logging
import os
import sys
from typing import NoReturn

from inferrun.exitcodes import ExitCode
from inferrun.logs import log_as_json
from inferrun.plugins import AbortableStore, CommittedRun, Contract, OutputStore, RunnerError
from inferrun.runner_report import OutputFinding, OutputState, RecordCounts, dump_result
from runner import checks
from runner.contract_file import only_label, read_contract
from runner.execution import store_context
from runner.registry import Registry
from runner.settings import Settings, read_settings
from runner.skipped_files import describe
from runner.tls import trust

_log = logging.getLogger("runner.verify")

TIME_LIMIT = 120.0
"""Seconds for one try; the Job repeats it."""


async def verify(contract: Contract, settings: Settings, *, is_final: bool) -> OutputFinding:
    """What the output store says about the run. Raises RunnerError if it does not answer."""
    label, spec = only_label(contract.output, side="output")
    registry = Registry()
    context = store_context(contract, settings, registry)
    async with registry.output_store(label)(spec, context) as sink:
        if isinstance(sink, AbortableStore):
            committed = await (sink.abort() if is_final else sink.find_commit())
        else:
            committed = (await sink.open()).committed_run
        return _finding(committed, sink)


def _finding(committed: CommittedRun | None, sink: OutputStore) -> OutputFinding:
    if committed is not None:
        predicted = f"{committed.completed} of {committed.total} records predicted"
        return OutputFinding(
            state=OutputState.COMMITTED,
            message=checks.summary([predicted, describe(committed.skipped)]),
            records=RecordCounts(total=committed.total, completed=committed.completed, failed=committed.failed),
            usage=committed.usage if committed.usage.total_tokens else None,
            delivery=sink.delivery,
            output=committed.output,
        )
    if sink.delivery == "ExactlyOnce":
        return OutputFinding(state=OutputState.NOT_COMMITTED, message="the store has no commit of this run")
    return OutputFinding(state=OutputState.UNKNOWN, message="the store cannot tell whether the predictions are stored")


async def _verify_in_time(settings: Settings, *, is_final: bool) -> NoReturn:
    """Exits from inside the event loop, because closing the loop would wait for its threads."""
    try:
        trust(settings.ca_bundle, folder=settings.spool_dir)
        async with asyncio.timeout(TIME_LIMIT):
            finding = await verify(read_contract(settings.contract), settings, is_final=is_final)
    except RunnerError as error:
        _log.error("the output cannot be verified", extra={"detail": str(error)})
        _exit(str(error), error.code, settings=settings)
    except TimeoutError:
        _exit(f"the store did not answer within {TIME_LIMIT:.0f} s", ExitCode.OUTPUT, settings=settings)
    _log.info("the output was verified", extra={"state": str(finding.state), "detail": finding.message})
    _exit(dump_result(finding), ExitCode.DONE, settings=settings)


def _exit(message: str, code: ExitCode, *, settings: Settings) -> NoReturn:
    """End the process at once: a thread on a volume that hangs must not delay it."""
    try:
        settings.termination_log.write_text(message, encoding="utf-8")
    except OSError as error:
        _log.warning("cannot write the termination message", extra={"error": error.strerror})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> NoReturn:
    """Verify and exit."""
    log_as_json(sys.stderr)
    try:
        settings = read_settings(os.environ)
    except RunnerError as error:
        _exit(str(error), error.code, settings=Settings())
    asyncio.run(_verify_in_time(settings, is_final="--final" in sys.argv[1:]))
    raise AssertionError("the verification returned without exiting")


if __name__ == "__main__":
    main()
