"""Reads the contract and says, before any I/O, whether it can be carried out. Every refusal names the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferrun.contract import Contract
from runner.errors import ContractError


def read_contract(path: Path) -> Contract:
    """The contract in a file; raises ContractError that names the field and what is allowed."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ContractError(
            f"no contract can be read at {path}: {error.strerror}; the run's ConfigMap is mounted there"
        ) from error
    return parse_contract(text)


def parse_contract(text: bytes) -> Contract:
    """The contract in a JSON text."""
    try:
        return Contract.model_validate_json(text)
    except ValidationError as error:
        raise ContractError(f"contract.json: {describe(error)}") from error


def describe(error: ValidationError) -> str:
    """The first thing that is wrong, as `field: what is allowed; it is value`."""
    wrong = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in wrong["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if wrong["type"] == "missing":
        return f"{field}: is required{more}"
    value = f"; it is {str(wrong['input'])[:120]!r}" if isinstance(wrong["input"], (str, int, float)) else ""
    return f"{field + ': ' if field else ''}{wrong['msg']}{value}{more}"


def only_label(storage: Mapping[str, Any], *, side: str) -> tuple[str, dict[str, Any]]:  # Any: free-form by design
    """The one label of a storage map and its object; `side` is `input` or `output`."""
    if len(storage) != 1:
        given = f"it has {', '.join(sorted(storage))}" if storage else "it is empty"
        raise ContractError(
            f"{side}: exactly one storage label is required, {given}; set spec.storage.{side} of the config"
        )
    label, spec = next(iter(storage.items()))
    if not isinstance(spec, dict):
        raise ContractError(f"{side}.{label}: an object is required, it is {type(spec).__name__}")
    return label, spec
