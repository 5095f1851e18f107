"""Executes one run, from the contract to the committed output."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from inferrun.contract import Contract
from inferrun.formats.named_columns import check_store, columns_of, with_columns
from inferrun.formats.skipped_files import describe
from inferrun.plugins import (
    Checkpoint,
    ColumnSelection,
    CommittedRun,
    Counts,
    Delivery,
    InferenceError,
    InputError,
    InputPlan,
    ModelContext,
    ModelProtocol,
    OutputStore,
    RunnerError,
    Source,
    StoreContext,
)
from inferrun.reasons import Reason
from inferrun.runner_report import RecordCounts, RunnerResult
from inferrun_runner.contract_file import only_label
from inferrun_runner.errors import CommitUnclear, RunCommittedElsewhere, first_error
from inferrun_runner.flow.first_records import FirstRecords
from inferrun_runner.flow.pipeline import Pipeline
from inferrun_runner.network.spans import step_span
from inferrun_runner.program import checks
from inferrun_runner.program.committing import find_commit, finish
from inferrun_runner.program.known_answers import keys_for, known_answers
from inferrun_runner.program.pod_memory import memory_limit
from inferrun_runner.program.process_tuning import collect_rarely
from inferrun_runner.program.result_types import first_valid, predicted_type, typed_plan
from inferrun_runner.program.retry import Retry
from inferrun_runner.protocols.probe import with_protocol
from inferrun_runner.protocols.protocol_name import named_protocol
from inferrun_runner.registry import Registry
from inferrun_runner.sending.error_budget import ErrorBudget, budget_of
from inferrun_runner.sending.recall import Recall
from inferrun_runner.sending.saved_answers import Saving
from inferrun_runner.sending.sender import Known
from inferrun_runner.settings import Settings
from inferrun_runner.stores.services import RunnerServices

_log = logging.getLogger(__name__)


async def execute(
    contract: Contract,
    settings: Settings,
    *,
    report: Callable[[Counts], None],
    record_success: Callable[[RunnerResult], None],
) -> None:
    """Execute the contract; `report` receives the counts as they change. Raises RunnerError if the
    run fails.

    `record_success` receives the result as soon as the run is committed. Whatever is raised later,
    the run has succeeded.
    """
    _log.info("run started", extra={"job": contract.job_name, "attempt": settings.attempt})
    registry = Registry()
    input_label, input_spec = only_label(contract.input, side="input")
    output_label, output_spec = only_label(contract.output, side="output")
    open_input, open_output = registry.input_store(input_label), registry.output_store(output_label)
    model_context = ModelContext(
        limits=settings.limits, credentials_dir=settings.endpoints_dir / "model", contract=contract
    )
    described = await with_protocol(contract.kserve, model_context)
    name, field = named_protocol(described)
    open_model = registry.model_protocol(name, field=field)
    budget_of(contract, total=0)  # raises ContractError before anything is opened
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(open_model(described, model_context))
        columns = columns_of(contract, model)
        context = store_context(contract, settings, registry, columns)
        sink = await stack.enter_async_context(open_output(output_spec, context))
        check_store(sink, contract, columns)
        if contract.dry_run:
            source = await stack.enter_async_context(open_input(input_spec, context))
            text = await checks.check_run(
                contract, settings, described, model=model, source=source, sink=sink
            )
            record_success(RunnerResult(reason=Reason.DRY_RUN_SUCCEEDED, message=text))
            return
        checkpoint = await sink.open()
        try:
            committed_run = checkpoint.committed_run
            if committed_run:
                _log.info("the run was already committed by an earlier attempt")
            else:
                source = await stack.enter_async_context(open_input(input_spec, context))
                if settings.record_limit:
                    source = FirstRecords(source, settings.record_limit)
                committed_run = await _predict(
                    source,
                    model,
                    sink,
                    checkpoint,
                    contract=contract,
                    settings=settings,
                    report=report,
                )
        except (RunnerError, ExceptionGroup, asyncio.CancelledError) as error:
            committed_run = (
                None if isinstance(first_error(error), CommitUnclear) else await find_commit(sink)
            )
            if committed_run is None:
                raise
        record_success(_succeeded(committed_run, sink.delivery))
        run = committed_run
        report(Counts(total=run.total, completed=run.completed, failed=run.failed, usage=run.usage))


async def _predict(
    source: Source,
    model: ModelProtocol,
    sink: OutputStore,
    checkpoint: Checkpoint,
    *,
    contract: Contract,
    settings: Settings,
    report: Callable[[Counts], None],
) -> CommittedRun:
    is_checked = checkpoint.plan is None and await _check_first(source, model)
    if not is_checked and (
        checkpoint.plan is None or len(checkpoint.committed) < len(checkpoint.plan.chunks)
    ):
        await model.prepare()
    retry = await checks.find_retry(contract, settings, sink, source)
    with step_span("open the input"):
        plan = await _begin(
            source, model, sink, checkpoint, retry, retry_seconds=settings.limits.retry_seconds
        )
    budget = budget_of(contract, total=plan.total)
    known: list[Known] = [Recall(await asyncio.to_thread(retry.known, plan))] if retry else []
    limits = settings.limits
    limits = limits.model_copy(update={"memory_bytes": limits.memory_bytes or memory_limit()})
    saving = None
    if store := sink.abilities.answers:
        committed = checkpoint.committed
        saving = Saving(store, plan.chunks, committed, seconds=limits.save_seconds)
        if checkpoint.plan and (saved := await saving.known()):
            known.append(saved)
    async with AsyncExitStack() as stack:
        answers = None
        if keys_of := keys_for(model, limits.duplicates):
            begun = plan if checkpoint.plan else None
            answers = await stack.enter_async_context(
                known_answers(keys_of, source, sink, begun, contract=contract, settings=settings)
            )
        pipeline = Pipeline(
            source,
            model,
            sink,
            limits=limits,
            report=report,
            budget=budget,
            known=known,
            saving=saving,
            keys_of=keys_of,
            answers=answers,
        )
        collect_rarely()
        if settings.shards == 1:
            return await _commit(source, sink, await pipeline.run(plan, checkpoint), budget)
        return await _predict_shared(
            pipeline,
            source,
            sink,
            checkpoint,
            plan,
            contract=contract,
            settings=settings,
            budget=budget,
        )


async def _predict_shared(
    pipeline: Pipeline,
    source: Source,
    sink: OutputStore,
    checkpoint: Checkpoint,
    plan: InputPlan,
    *,
    contract: Contract,
    settings: Settings,
    budget: ErrorBudget,
) -> CommittedRun:
    """Predict the chunks that no other Pod does, and commit the run unless another Pod has."""
    from inferrun_runner.shards.shared_work import counts_of, shared_work  # noqa: PLC0415  runs with one Pod do not need it

    work = shared_work(sink, plan, contract=contract, settings=settings, budget=budget)
    run: CommittedRun | None = None
    try:
        async with work.shared():
            work.report = pipeline.report
            await pipeline.run(plan, checkpoint, work)
            counts = counts_of(await work.read_commits(), plan)
            run = await _commit(source, sink, counts, budget)
    except (RunnerError, ExceptionGroup, asyncio.CancelledError) as error:
        if run is None and not isinstance(first_error(error), RunCommittedElsewhere):
            raise
    if run is None:
        run = (await sink.open()).committed_run
        if run is None:
            raise RunnerError("another Pod has committed the run, but its manifest cannot be read")
        _log.info("the run was committed by another Pod")
    return run


async def _check_first(source: Source, model: ModelProtocol) -> bool:
    """Check the first records and the model before the input is counted; False if the source has to
    count it first.

    A function of its own, so that the memory of the first records is free during the run.
    """
    first = await asyncio.to_thread(checks.read_first, source, may_plan=False)
    if first is None:
        return False
    found = [first[1], await checks.check_model(model, first[0], is_strict=False)]
    _log.info(
        "the first records and the model were checked", extra={"detail": checks.summary(found)}
    )
    return True


def store_context(
    contract: Contract, settings: Settings, registry: Registry, columns: ColumnSelection
) -> StoreContext:
    """What a store of this run gets."""
    return StoreContext(
        contract=contract,
        limits=settings.limits,
        pod_uid=settings.pod_uid,
        input_dir=settings.input_dir,
        output_dir=settings.output_dir,
        endpoints_dir=settings.endpoints_dir,
        spool_dir=settings.spool_dir,
        format_named=with_columns(registry.record_format, columns),
        services=RunnerServices(settings.limits, settings.spool_dir),
        columns=columns,
    )


async def _begin(
    source: Source,
    model: ModelProtocol,
    sink: OutputStore,
    checkpoint: Checkpoint,
    retry: Retry | None,
    *,
    retry_seconds: float,
) -> InputPlan:
    """Agree with all attempts on one plan, and verify that it fits the input."""
    plan = checkpoint.plan
    if plan is None:
        plan = await asyncio.to_thread(retry.plan if retry else source.plan)
    await _adopt(source, plan)
    if checkpoint.plan is None:
        options = sink.abilities.typed
        if options is None:
            plan = replace(plan, result_schema=b"")
        else:
            first = await asyncio.to_thread(first_valid, source, plan)
            plan = await typed_plan(plan, first, model, options, retry_seconds=retry_seconds)
    stored = await sink.begin(plan)
    if stored != plan:
        await _adopt(source, stored)
        plan = stored
    if plan.result_schema and (use_type := model.abilities.use_type):
        use_type(predicted_type(plan.result_schema))
    if plan.fingerprint != source.fingerprint:
        raise InputError(
            "the input differs from the one this run started with, so its committed predictions no longer apply; "
            "start a new run (a query behind the krateo label needs ORDER BY, or its rows arrive in a different order)"
        )
    _log.info(
        "input opened",
        extra={
            "records": plan.total,
            "chunks": len(plan.chunks),
            "committed_chunks": len(checkpoint.committed),
        },
    )
    return plan


async def _adopt(source: Source, plan: InputPlan) -> None:
    if adopt := source.abilities.adopt:
        await asyncio.to_thread(adopt, plan)


async def _commit(
    source: Source, sink: OutputStore, counts: Counts, budget: ErrorBudget
) -> CommittedRun:
    """Commit the run, unless it has too many errors; without a threshold, that is a run of which
    every record failed."""
    if budget.is_limited:
        budget.check_committed(counts.failed)
    elif counts.total > 0 and counts.completed == 0:
        error = budget.first_error
        detail = f": {error.message}" if error else "; the error of each record is in the output"
        raise InferenceError(
            f"all {counts.total} records failed{detail}; the run was not committed",
            is_retryable=False,
        )
    if counts.completed + counts.failed != counts.total:
        raise RunnerError(
            f"the input has {counts.total} records, but {counts.completed} were predicted and {counts.failed} "
            "failed; the run was not committed"
        )
    with step_span("commit the output"):
        await asyncio.to_thread(source.verify)
        return await finish(sink, counts)


def _succeeded(run: CommittedRun, delivery: Delivery) -> RunnerResult:
    errors = f"{run.failed} failed, with their errors in the output" if run.failed else ""
    predicted = f"{run.completed} of {run.total} records predicted"
    return RunnerResult(
        reason=Reason.SUCCEEDED,
        message=checks.summary([predicted, errors, describe(run.skipped)]),
        records=RecordCounts(total=run.total, completed=run.completed, failed=run.failed),
        usage=run.usage if run.usage.total_tokens else None,
        delivery=delivery,
        output=run.output,
    )
