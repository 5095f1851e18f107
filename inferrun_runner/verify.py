"""`python -m inferrun_runner.verify`: asks the output store whether the run is committed, and exits with 0
once it has an answer.

The control plane starts it if a Pod left no readable result. With `--final`, no Pod of the run
follows: a run that is not committed is aborted in the store, so that a Pod which was believed lost
cannot commit it later. Reads neither the input nor the model. The answer is the termination
message.
"""

import asyncio
import sys
from contextlib import suppress

from inferrun.exitcodes import ExitCode
from inferrun.formats.named_columns import columns_of
from inferrun.formats.skipped_files import describe
from inferrun.plugins import Contract, RunnerError
from inferrun.runner_report import OutputFinding, OutputState, RecordCounts, dump_result
from inferrun_runner.contract_file import only_label, read_contract
from inferrun_runner.program import checks
from inferrun_runner.program.committing import ask_commit
from inferrun_runner.program.execution import store_context
from inferrun_runner.program.short_program import run_short_program
from inferrun_runner.registry import Registry
from inferrun_runner.settings import Settings

TIME_LIMIT = 120.0
"""Seconds for one try; the Job repeats it."""


async def verify(contract: Contract, settings: Settings, *, is_final: bool) -> OutputFinding:
    """What the output store says about the run. Raises RunnerError if it does not answer."""
    label, spec = only_label(contract.output, side="output")
    registry = Registry()
    context = store_context(contract, settings, registry, columns_of(contract))
    async with registry.output_store(label)(spec, context) as sink:
        abort = sink.abilities.abort if is_final else None
        committed = await (abort() if abort else ask_commit(sink))
        if committed is not None:
            with suppress(RunnerError):
                # deletes what a Pod that was killed right after the commit has left
                await sink.open()
    if committed is not None:
        predicted = f"{committed.completed} of {committed.total} records predicted"
        return OutputFinding(
            state=OutputState.COMMITTED,
            message=checks.summary([predicted, describe(committed.skipped)]),
            records=RecordCounts(
                total=committed.total, completed=committed.completed, failed=committed.failed
            ),
            usage=committed.usage if committed.usage.total_tokens else None,
            delivery=sink.delivery,
            output=committed.output,
        )
    if sink.delivery == "ExactlyOnce":
        return OutputFinding(
            state=OutputState.NOT_COMMITTED, message="the store has no commit of this run"
        )
    return OutputFinding(
        state=OutputState.UNKNOWN,
        message="the store cannot tell whether the predictions are stored",
    )


async def _verify_in_time(settings: Settings) -> tuple[str, ExitCode]:
    is_final = "--final" in sys.argv[1:]
    try:
        async with asyncio.timeout(TIME_LIMIT):
            finding = await verify(read_contract(settings.contract), settings, is_final=is_final)
    except TimeoutError:
        return f"the store did not answer within {TIME_LIMIT:.0f} s", ExitCode.OUTPUT
    return dump_result(finding), ExitCode.DONE


if __name__ == "__main__":
    run_short_program(_verify_in_time)
