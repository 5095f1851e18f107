"""Executes a dry run: everything is opened and checked, nothing is predicted or stored."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from inferrun.contract import Contract, Model
from inferrun.plugins import InferenceError, ModelContext, OpenInput, OpenModel, OpenOutput, StorageObject, StoreContext
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult
from inferrun.text import public_url
from runner.formats.named_columns import check_store, use_tensors
from runner.program import checks
from runner.protocols.probe import open_probe
from runner.protocols.protocol_name import protocol_of
from runner.protocols.readiness import GRPC, PROBED
from runner.sending.error_budget import budget_of
from runner.settings import Settings
from runner.stores.file_ranges import FileRanges
from runner.stores.skipped_files import describe


async def check_run(
    contract: Contract,
    settings: Settings,
    context: StoreContext,
    described: Model,
    *,
    open_model: OpenModel,
    open_input: tuple[OpenInput, str, StorageObject],
    open_output: tuple[OpenOutput, str, StorageObject],
    record_success: Callable[[RunnerResult], None],
) -> None:
    """Check everything that can be known without a prediction. `described` is the model with its protocol.

    Raises RunnerError, as the run itself would.
    """
    budget_of(contract, total=0)
    (input_opener, input_label, input_spec), (output_opener, output_label, output_spec) = open_input, open_output
    model_context = ModelContext(limits=settings.limits, credentials_dir=settings.endpoints_dir / "model")
    found = ["the contract is valid"]
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(open_model(described, model_context))
        use_tensors(model, contract)
        sink = await stack.enter_async_context(output_opener(output_spec, context))
        check_store(sink, contract)
        source = await stack.enter_async_context(input_opener(input_spec, context))
        first = await checks.read_first(source, may_plan=True)
        if first is None:
            found.append(f"input.{input_label} has no records")
            await model.prepare()
        else:
            found += [f"input.{input_label}: {first.found}", await checks.check_model(model, first, is_strict=True)]
        if isinstance(source, FileRanges):
            found.append(describe(source.skipped))
        if protocol_of(described) in (*PROBED, GRPC):
            async with open_probe(described, settings.limits, endpoints=settings.endpoints_dir) as probe:
                finding = await probe()
            if not finding.is_ready:
                where = public_url(described.model_url)
                raise InferenceError(f"the model at {where} is not ready: {finding.seen}", is_retryable=False)
            found.append(finding.seen)
        if earlier := await checks.find_earlier(contract, sink, source):
            found.append(f"{earlier.kept} of {earlier.plan.total} predictions are taken from the retried run")
        found.append(await checks.check_output(sink, label=output_label))
    message = f"dry run: {checks.summary(found)}; nothing was predicted or stored"
    record_success(RunnerResult(reason=Reason.DRY_RUN_SUCCEEDED, message=message))
