"""Finds the results of the run that the contract retries, and verifies that they belong to this input."""

import logging

from inferrun.contract import Contract
from inferrun.plugins import ContractError, EarlierResults, InputError, OutputStore, RetriedStore, Source

_log = logging.getLogger(__name__)


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
