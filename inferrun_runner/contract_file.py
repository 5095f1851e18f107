"""Reads the contract and rejects, before any I/O, what cannot be executed. Every message names the
field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from inferrun.contract import Contract
from inferrun.fields.problems import invalid
from inferrun.plugins import ContractError

_CONFIDENTIAL: Final = {"headers", "payload", "modelUrl", "endpoint"}
"""Members whose values may contain credentials; only their names are shown."""


def _describe_invalid(error: ValidationError) -> str:
    """Describe the first problem as `field: what is allowed, got value`."""
    wrong = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in wrong["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if wrong["type"] == "missing":
        return f"{field}: required{more}"
    is_shown = isinstance(wrong["input"], (str, int, float)) and not _CONFIDENTIAL & set(
        wrong["loc"]
    )
    value = f", got {str(wrong['input'])[:120]!r}" if is_shown else ""
    return f"{field + ': ' if field else ''}{wrong['msg']}{value}{more}"


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
        raise ContractError(f"contract.json: {_describe_invalid(error)}") from error


# Any: free-form by design
def only_label(storage: Mapping[str, Any], *, side: str) -> tuple[str, dict[str, Any]]:
    """Return the single label of a storage map with its object; `side` is `input` or `output`."""
    if len(storage) != 1:
        given = f"found {', '.join(sorted(storage))}" if storage else "found none"
        raise ContractError(
            f"{side}: exactly one storage label is required, {given}; fix spec.storage.{side} in the InferenceConfig"
        )
    label, spec = next(iter(storage.items()))
    if not isinstance(spec, dict):
        raise ContractError(str(invalid(f"{side}.{label}", spec, "must be an object")))
    return label, spec
