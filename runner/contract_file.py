"""Reads the contract and rejects, before any I/O, what cannot be executed. Every message names the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferrun.contract import Contract
from inferrun.plugins import ContractError
from inferrun.plugins.storage import describe_invalid


def read_contract(path: Path) -> Contract:
    """Read the contract from a file. Raises ContractError with the field and what is allowed."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ContractError(
            f"cannot read the contract at {path}: {error.strerror}; the run's ConfigMap must be mounted there"
        ) from error
    return parse_contract(text)


def parse_contract(text: bytes) -> Contract:
    """Parse a contract from JSON. Raises ContractError."""
    try:
        return Contract.model_validate_json(text)
    except ValidationError as error:
        raise ContractError(f"contract.json: {describe_invalid(error)}") from error


def only_label(storage: Mapping[str, Any], *, side: str) -> tuple[str, dict[str, Any]]:  # Any: free-form by design
    """Return the single label of a storage map with its object; `side` is `input` or `output`."""
    if len(storage) != 1:
        given = f"found {', '.join(sorted(storage))}" if storage else "found none"
        raise ContractError(
            f"{side}: exactly one storage label is required, {given}; fix spec.storage.{side} in the InferenceConfig"
        )
    label, spec = next(iter(storage.items()))
    if not isinstance(spec, dict):
        raise ContractError(f"{side}.{label}: must be an object, got {type(spec).__name__}")
    return label, spec
