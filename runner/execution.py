"""One run from contract to committed output: the story, in named steps."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from inferrun.contract import Contract
from inferrun.reasons import Reason
from inferrun.runner_report import Delivery, RecordCounts, RunnerResult
from runner import registry
from runner.errors import InputError, RunnerError
from runner.pipeline import Pipeline
from runner.seams import OutputStore, Source, Surroundings
from runner.settings import Settings
from runner.values import Counts, Cut, Finished, Memory
from runner.work_order import only_label

_log = logging.getLogger(__name__)

DEFAULT_PROTOCOL = "v2"


async def execute(contract: Contract, settings: Settings, *, tell: Callable[[Counts], None]) -> RunnerResult:
    """Carry the contract out; raises a RunnerError where that is not possible."""
    _log.info("run starts", extra={"job": contract.job_name, "attempt": settings.attempt})
    around = Surroundings(contract=contract, settings=settings, format_named=registry.record_format)
    input_label, input_spec = only_label(contract.input, side="input")
    output_label, output_spec = only_label(contract.output, side="output")
    open_input, open_output = registry.input_store(input_label), registry.output_store(output_label)
    open_model = registry.model_protocol(contract.kserve.model_version.strip().lower() or DEFAULT_PROTOCOL)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(open_model(contract.kserve, around))
        sink = await stack.enter_async_context(open_output(output_spec, around))
        memory = await sink.open()
        if memory.finished:
            _log.info("an earlier attempt committed this run")
            return _succeeded(memory.finished, sink.delivery)
        source = await stack.enter_async_context(open_input(input_spec, around))
        cut = await _agree_on_cut(source, sink, memory)
        if memory.committed_records < cut.total:
            await model.prepare()
        pipeline = Pipeline(source, model, sink, concurrency=settings.concurrency, tell=tell)
        counts = await pipeline.run(source.chunks(cut), memory, total=cut.total)
        tell(counts)
        finished = await _commit(source, sink, counts)
    return _succeeded(finished, sink.delivery)


async def _agree_on_cut(source: Source, sink: OutputStore, memory: Memory) -> Cut:
    offered = await asyncio.to_thread(source.survey) if memory.cut is None else memory.cut
    cut = await sink.begin(offered)
    if cut.fingerprint != source.fingerprint:
        raise InputError(
            "the input is not the one that this run began with, so its committed predictions do not belong to "
            "it; start a new run (a query behind the krateo label needs a fixed order: ORDER BY)"
        )
    _log.info(
        "input is ready",
        extra={"records": cut.total, "chunk_size": cut.chunk_size, "committed_chunks": memory.committed_chunks},
    )
    return cut


async def _commit(source: Source, sink: OutputStore, counts: Counts) -> Finished:
    if counts.completed + counts.failed != counts.total:
        raise RunnerError(
            f"{counts.total} records were counted, but {counts.completed} were predicted and {counts.failed} "
            "failed; nothing was committed"
        )
    await asyncio.to_thread(source.verify)
    return await sink.finish(counts)


def _succeeded(finished: Finished, delivery: Delivery) -> RunnerResult:
    return RunnerResult(
        reason=Reason.SUCCEEDED,
        message=f"{finished.completed} of {finished.total} records predicted",
        records=RecordCounts(total=finished.total, completed=finished.completed, failed=finished.failed),
        delivery=delivery,
        output=finished.output,
    )
