"""Which run `spec.retryOf` names, and whether its failed records can be predicted again. Pure."""

import json
from typing import Final

from inferrun.contract import Contract, RetriedRun, dump_contract
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.public_contract import public_contract, published_contract
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.stores import READABLE_LABELS, KrateoStorage
from inferrun.text import one_line


def missing(run: InferenceRun) -> LaunchBlocked:
    return _invalid(run, f"there is no such InferenceRun in namespace {run.metadata.namespace}")


def retried_run(run: InferenceRun, earlier: InferenceRun, config: InferenceConfig) -> RetriedRun:
    """The reference in the contract. Raises LaunchBlocked if that run cannot be retried."""
    if earlier.spec.is_schedule:
        raise _invalid(run, "it is a schedule; name one of its runs")
    if earlier.spec.backfill is not None:
        raise _invalid(run, "it is a back-fill; name one of its runs")
    if not earlier.status.is_terminal:
        phase = earlier.status.phase or "without a phase"
        raise _invalid(run, f"it is {phase}; only a run that has ended can be retried")
    if earlier.spec.dry_run:
        raise _invalid(run, "it is a dry run, which has no output")
    if KrateoStorage.label in (config.spec.storage.output or {}):
        raise _invalid(
            run,
            f"the output of the InferenceConfig is {KrateoStorage.label}, and a data handler cannot be asked what it has stored; "
            f"outputs that can be completed are {', '.join(READABLE_LABELS[:-1])} and {READABLE_LABELS[-1]}",
        )
    output = earlier.status.output
    return RetriedRun(
        name=earlier.metadata.name,
        run_id=earlier.metadata.uid,
        job_name=job_base_name(earlier.metadata.name, earlier.metadata.uid),
        manifest_sha256=(output.sha256 if output is not None else "")[:64],
    )


def check_storage(run: InferenceRun, earlier: InferenceRun, contract: Contract) -> None:
    """Raise LaunchBlocked if the run would read from or write to another place than the earlier
    one."""
    before = published_contract(earlier)
    if not before:
        return
    now = json.loads(public_contract(dump_contract(contract)))
    for end in ("input", "output"):
        if before.get(end) != now.get(end):
            why = (
                f"storage.{end} of the InferenceConfig is not what that run used; restore it, set the parameters and the interval "
                "of that run, or start a run without retryOf"
            )
            raise _invalid(run, why)
    for part, name in _FORM_OF_PREDICTIONS:
        used = [
            one.get(name) if isinstance(one := given.get(part), dict) else None
            for given in (before, now)
        ]
        if used[0] != used[1]:
            raise _invalid(
                run,
                f"{part}.{name} of the InferenceConfig is not what that run used, so the predictions would differ in form; restore "
                "it, or start a run without retryOf",
            )


_FORM_OF_PREDICTIONS: Final = (
    ("tensors", "outputs"),
    ("request", "task"),
    ("request", "responseSchema"),
    ("request", "outputs"),
)
"""What predictions look like. A prompt may be improved between two tries."""


def _invalid(run: InferenceRun, why: str) -> LaunchBlocked:
    text = f'spec.retryOf is "{one_line(run.spec.retry_of or "", limit=253)}"; {why}'
    return LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)
