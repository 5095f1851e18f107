"""The checks before the first request: the first records, the model, and in a dry run the output.

Every run makes them first, because they are cheap and find most mistakes; a dry run makes only
them, and ends. Each check returns its findings, for people, and raises the error that the run would
meet.
"""

import asyncio
import logging
from collections.abc import Sequence

import orjson

from inferrun.contract import Contract
from inferrun.formats.record_errors import invalid_of
from inferrun.formats.record_forms import form_of
from inferrun.formats.skipped_files import describe
from inferrun.plugins import (
    ArrowRecords,
    ContractError,
    InferenceError,
    InputError,
    JsonRecords,
    Model,
    ModelProtocol,
    OutputStore,
    Records,
    Source,
)
from inferrun.text import public_url
from inferrun_runner.program.retry import Retry
from inferrun_runner.protocols.probe import open_probe
from inferrun_runner.protocols.protocol_name import protocol_of
from inferrun_runner.protocols.readiness import GRPC, PROBED
from inferrun_runner.settings import Settings
from inferrun_runner.stores.file_ranges import FileRanges
from inferrun_runner.stores.run_folder.layout import is_partitioned

_log = logging.getLogger(__name__)


def read_first(source: Source, *, may_plan: bool) -> tuple[Records, str] | None:
    """Read the first records, and describe them. Blocks. Raises InputError.

    None if there are none, or if the source would have to count all of them and must not.
    """
    if first_chunk := source.abilities.first_chunk:
        chunk = first_chunk()
    elif may_plan:
        chunk = next(iter(source.plan().chunks), None)
    else:
        return None
    if chunk is None:
        return None
    # Records that failed in the run whose output is the input say nothing about the input.
    block = next(
        (
            one
            for one in source.read(chunk)
            if invalid_of(one) or len(one.errors) < len(one.records)
        ),
        None,
    )
    if block is None:
        raise InputError("the input has no records where its first chunk begins; it changed")
    invalid = invalid_of(block)
    total, bad = len(block.records), len(invalid)
    first = invalid[0].message if bad else ""
    if 2 * bad > total:  # the input is not what the config says
        more = f"; of the first {total} records, {bad} are not valid" if bad > 1 else ""
        raise InputError(f"{first}{more}", is_retryable=False)
    fault = f", of which {bad} are not valid and will fail ({first})" if bad else ""
    return block.records, f"the first {total} records are {_kind(block.records)}{fault}"


def _kind(records: Records) -> str:
    match records:
        case ArrowRecords(table):
            return f"rows of {table.num_columns} columns"
        case JsonRecords(texts) if texts[0].startswith(b"{"):
            return "JSON objects"
        case JsonRecords(texts):
            try:
                form = form_of(orjson.loads(texts[0]))
            except orjson.JSONDecodeError:  # formats that send each line as it is check it later
                return "lines, the first of which is not valid JSON"
            return f"arrays of {form}" if len(form.dimensions) == 1 else f"values such as {form}"


async def check_model(model: ModelProtocol, first: Records, *, is_strict: bool) -> str:
    """Read the model's metadata, and compare it with the first records. Raises InferenceError.

    Metadata may be wrong, so a difference ends only a dry run: with `is_strict`.
    """
    await model.prepare()
    able = model.abilities
    if able.mismatch is None:
        return "the model server answers"
    mismatch = able.mismatch(first)
    if mismatch and is_strict:
        raise InferenceError(mismatch, is_retryable=False)
    if mismatch:
        _log.warning("the model's metadata differs from the input", extra={"detail": mismatch})
    return summary(["the model's metadata agrees with them", able.note() if able.note else ""])


async def find_retry(
    contract: Contract, settings: Settings, sink: OutputStore, source: Source
) -> Retry | None:
    """Return what is taken over; None if the contract retries no run, or if that run has not begun.

    Raises ContractError if the store cannot be asked, and OutputError.
    """
    run = contract.retry_of
    if run is None:
        return None
    earlier_results = sink.abilities.earlier_results
    if earlier_results is None:
        label = next(iter(contract.output), "")
        raise ContractError(
            f"retryOf: an output of the label {label!r} cannot be completed; start a run without retryOf"
        )
    earlier = await earlier_results(run)
    if earlier is None:
        _log.info(
            "the retried run has no output, so every record is predicted",
            extra={"retried": run.name},
        )
        return None
    return Retry(run, earlier, source, settings, is_partitioned=is_partitioned(contract))


async def check_run(
    contract: Contract,
    settings: Settings,
    described: Model,
    *,
    model: ModelProtocol,
    source: Source,
    sink: OutputStore,
) -> str:
    """Check everything that can be known without a prediction, and describe it. Nothing is
    predicted or stored.

    `described` is the model with its protocol. Raises RunnerError, as the run itself would.
    """
    input_label, output_label = next(iter(contract.input)), next(iter(contract.output))
    found = ["the contract is valid"]
    first = await asyncio.to_thread(read_first, source, may_plan=True)
    if first is None:
        found.append(f"input.{input_label} has no records")
        await model.prepare()
    else:
        found += [
            f"input.{input_label}: {first[1]}",
            await check_model(model, first[0], is_strict=True),
        ]
    if isinstance(source, FileRanges):
        found.append(describe(source.skipped))
    if protocol_of(described) in (*PROBED, GRPC):
        endpoints = settings.endpoints_dir
        async with open_probe(
            described, settings.limits, endpoints=endpoints, accepts_description=True
        ) as probe:
            finding = await probe()
        if not finding.is_ready:
            where = public_url(described.model_url)
            raise InferenceError(
                f"the model at {where} is not ready: {finding.seen}", is_retryable=False
            )
        found.append(finding.seen)
    if retry := await find_retry(contract, settings, sink, source):
        plan = await asyncio.to_thread(retry.plan)
        found.append(f"{retry.kept} of {plan.total} predictions are taken from the retried run")
    if check := sink.abilities.probe:
        found.append(f"{await check()} can be written")
    else:
        found.append(f"output.{output_label} cannot be checked without storing something")
    return f"dry run: {summary(found)}; nothing was predicted or stored"


def summary(found: Sequence[str]) -> str:
    """What was checked, in one sentence."""
    return "; ".join(text for text in found if text)
