"""Where a run has committed its output, according to its status. Pure.

The status has the contract, in which all placeholders are resolved: the config may have been edited
since, so it is not asked.
"""

import binascii
from base64 import b64decode
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import ValidationError

from inferrun.contract import Contract
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun
from inferrun.results.errors import NoResults, ResultsError, RunNotEnded
from inferrun.stores import READABLE_LABELS, STORES, FileStorage, ObjectStorage, SqlStorage, Store
from inferrun.stores.declaration import InvalidStorage, read_storage

Storage = TypeVar("Storage", bound=Store)


@dataclass(frozen=True, slots=True)
class CommittedOutput:
    """What a run has committed."""

    run: str
    """The run, as messages name it."""

    contract: Contract
    store: FileStorage | ObjectStorage | SqlStorage
    manifest_sha256: str

    @property
    def run_id(self) -> str:
        """The UID of the run."""
        return self.contract.run_id or self.contract.job_id


def committed_output(run: InferenceRun) -> CommittedOutput:
    """Return where the output of a run is. Raises RunNotEnded and NoResults."""
    name = (
        f"run {run.metadata.namespace}/{run.metadata.name}"
        if run.metadata.namespace
        else f"run {run.metadata.name}"
    )
    status = run.status
    if run.spec.is_schedule:
        raise NoResults(
            f"{name} is a schedule, which has no results itself; read those of one of its runs"
        )
    if not status.is_terminal:
        waiting = f": {status.message}" if status.message else ""
        raise RunNotEnded(
            f"{name} has not ended, it is {status.phase or Phase.PENDING}{waiting}; wait for it"
        )
    if status.phase is Phase.FAILED:
        raise NoResults(
            f"{name} has failed ({status.reason}: {status.message}), and a failed run commits no output; create a run with "
            f"retryOf: {run.metadata.name}, which keeps what was predicted"
        )
    if run.spec.dry_run:
        raise NoResults(f"{name} was a dry run, which predicts nothing")
    if status.output is None or not status.output.sha256:
        raise NoResults(
            f"{name} has no manifest: its image, or the store of its output, does not commit one"
        )
    contract = contract_of(run)
    label, stored = next(iter(contract.output.items()), ("", {}))
    if label not in READABLE_LABELS:
        raise NoResults(
            f"{name} wrote to the store {label!r}, which cannot be read; allowed: {', '.join(READABLE_LABELS)}"
        )
    found = storage_of(STORES[label], stored, field=f"output.{label}")
    store = cast("FileStorage | ObjectStorage | SqlStorage", found)
    return CommittedOutput(
        run=name, contract=contract, store=store, manifest_sha256=status.output.sha256
    )


def contract_of(run: InferenceRun) -> Contract:
    """Return the contract with which a run was started. Raises NoResults."""
    try:
        return Contract.model_validate_json(b64decode(run.status.contract or "", validate=True))
    except (binascii.Error, ValidationError) as error:
        raise NoResults(
            f"run {run.metadata.name} has no contract in its status, so its output is not known"
        ) from error


def storage_of(model: type[Storage], stored: object, *, field: str) -> Storage:
    """Return a storage object of the contract. Raises ResultsError."""
    try:
        return read_storage(
            stored, model, end="output" if field.startswith("output") else "input", path=field
        )
    except InvalidStorage as error:
        raise ResultsError(f"the contract is not valid: {error}") from error
