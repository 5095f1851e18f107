"""The checks before the first request: the first records, the model, and in a dry run the output.

Every run makes them first, because they are cheap and find most mistakes; a dry run makes only them, and ends. Each check returns
what it has found, for people, and raises the error that the run would meet.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from inferrun.contract import Contract
from inferrun.plugins import (
    ArrowRecords,
    Block,
    CheckedModel,
    ContractError,
    EarlierResults,
    InferenceError,
    InputError,
    JsonRecords,
    ModelProtocol,
    OutputStore,
    PeekableSource,
    ProbedStore,
    Records,
    RetriedStore,
    Source,
)
from runner.formats.row_validation import form_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstRecords:
    """The records that a source reads first, and a description of them."""

    records: Records
    found: str


async def read_first(source: Source, *, may_plan: bool) -> FirstRecords | None:
    """Read the first records; None if there are none, or if the source would have to count all of them and must not.

    Raises InputError.
    """
    return await asyncio.to_thread(_read_first, source, may_plan=may_plan)


def _read_first(source: Source, *, may_plan: bool) -> FirstRecords | None:
    if isinstance(source, PeekableSource):
        chunk = source.first_chunk()
    elif may_plan:
        chunk = next(iter(source.plan().chunks), None)
    else:
        return None
    if chunk is None:
        return None
    block = next(source.read(chunk), None)
    if block is None:
        raise InputError("the input has no records where its first chunk begins; it changed")
    return FirstRecords(block.records, _found_in(block))


def _found_in(block: Block) -> str:
    """Describe the first records. Raises InputError if most are not valid: then the input is not what the config says."""
    total, bad = len(block.records), len(block.errors)
    first = block.errors[min(block.errors)].message if bad else ""
    if 2 * bad > total:
        more = f"; of the first {total} records, {bad} are not valid" if bad > 1 else ""
        raise InputError(f"{first}{more}", is_retryable=False)
    fault = f", of which {bad} are not valid and will fail ({first})" if bad else ""
    return f"the first {total} records are {_kind(block.records)}{fault}"


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


async def check_model(model: ModelProtocol, first: FirstRecords, *, is_strict: bool) -> str:
    """Read the model's metadata, and compare it with the first records. Raises InferenceError.

    Metadata may be wrong, so a difference ends only a dry run: with `is_strict`.
    """
    await model.prepare()
    mismatch = model.mismatch(first.records) if isinstance(model, CheckedModel) else ""
    if mismatch and is_strict:
        raise InferenceError(mismatch, is_retryable=False)
    if mismatch:
        _log.warning("the model's metadata differs from the input", extra={"detail": mismatch})
    return "the model's metadata agrees with them" if isinstance(model, CheckedModel) else "the model server answers"


async def find_earlier(contract: Contract, sink: OutputStore, source: Source) -> EarlierResults | None:
    """Return the results to complete; None if the contract retries no run, or if that run has not begun.

    Raises ContractError if the store cannot be asked, InputError if the input is another one, and OutputError.
    """
    run = contract.retry_of
    if run is None:
        return None
    if not isinstance(sink, RetriedStore):
        label = next(iter(contract.output), "")
        raise ContractError(
            f"retryOf: an output of the label {label!r} cannot be completed; start a run without retryOf"
        )
    earlier = await sink.earlier_results(run)
    if earlier is None:
        _log.info("the retried run has no output, so every record is predicted", extra={"retried": run.name})
        return None
    if earlier.plan.fingerprint != source.fingerprint:
        raise InputError(
            f"retryOf: the input differs from the one that run {run.name!r} read, so its predictions do not apply; start a run "
            "without retryOf",
            is_retryable=False,
        )
    _log.info("a run is retried", extra={"retried": run.name, "kept": earlier.kept, "records": earlier.plan.total})
    return earlier


async def check_output(sink: OutputStore, *, label: str) -> str:
    """Verify that the output can be written, without leaving anything behind. Raises OutputError."""
    if not isinstance(sink, ProbedStore):
        return f"output.{label} cannot be checked without storing something"
    return f"{await sink.probe()} can be written"


def summary(found: Sequence[str]) -> str:
    """What was checked, in one sentence."""
    return "; ".join(text for text in found if text)
