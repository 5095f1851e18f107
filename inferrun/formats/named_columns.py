"""The columns that a contract names, and whether a file has them. Pure."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final

from inferrun.contract import RESULT_MEMBERS, Contract
from inferrun.plugins import (
    ID_COLUMN,
    ColumnSelection,
    ContractError,
    InputError,
    InputFile,
    ModelProtocol,
    OutputStore,
    RecordFormat,
)

_SHOWN: Final = 20

STORED_RESULTS: Final = "inputRun"
"""Begins the fields with the formats of stored results, which are read with all columns."""


def columns_of(contract: Contract, model: ModelProtocol | None = None) -> ColumnSelection:
    """Return the columns that the contract selects; with the protocol of the model, also those that
    only it knows.

    Raises ContractError with the field.
    """
    copied = contract.pass_through_columns
    if contract.join_source and copied:
        raise ContractError(
            "joinSource: Input copies all columns; remove passThroughColumns, or set joinSource: None"
        )
    if fault := copied_fault(copied):
        raise ContractError(f"passThroughColumns: {fault}")
    fed, takes_any = contract.tensors.columns, False
    if model and (named := model.abilities.fed_columns) is not None:
        fed, takes_any = named, model.abilities.takes_any
    elif model and contract.tensors:
        raise ContractError(
            "tensors: only the protocols v1, v2 and grpc-v2 have named tensors; change kserve.protocolVersion"
        )
    return ColumnSelection(
        fed,
        copied,
        copies_all=bool(contract.join_source),
        takes_any=takes_any,
        fed_field="request" if contract.request else "tensors.inputs",
    )


def copied_fault(copied: Sequence[str]) -> str:
    """Return why columns cannot be copied to the results; empty if they can."""
    for name in copied:
        if name == ID_COLUMN:
            return f"{ID_COLUMN!r} is copied in any case; remove it"
        if name in RESULT_MEMBERS:
            return f"a column {name!r} would replace the member {name!r} of the results; rename it in the input"
        if copied.count(name) > 1:
            return f"{name!r} is named twice"
    return ""


def with_columns(
    load: Callable[[str, str], RecordFormat], columns: ColumnSelection
) -> Callable[[str, str], RecordFormat]:
    """Return a function that loads formats which read these columns of the input."""
    if not columns:
        return load

    def named(name: str, field: str) -> RecordFormat:
        found = load(name, field)
        if field.startswith(STORED_RESULTS):
            return found
        if (selecting := found.abilities.with_columns) is None:
            raise ContractError(
                f"{field}: the format {name!r} has no columns; use jsonl, csv, parquet, arrow or orc, or remove tensors.inputs, "
                "joinSource and passThroughColumns"
            )
        return selecting(columns) if field.startswith("input") else found

    return named


def check_store(sink: OutputStore, contract: Contract, columns: ColumnSelection) -> None:
    """Raise ContractError if columns are copied and the output has no place for them."""
    if columns.copies_any and not sink.abilities.stores_copied:
        label = next(iter(contract.output), "")
        raise ContractError(
            f"output.{label}: it does not store columns of the input; use file, s3, gcs, azure or sql, or remove joinSource "
            "and passThroughColumns"
        )


def check_names(names: Sequence[str], file: InputFile, columns: ColumnSelection) -> None:
    """Raise InputError if a file does not have the columns that the contract names.

    Its columns are shown only if one of them is named in the contract: otherwise the first line of
    a table may be a record.
    """
    for name in columns.named:
        if name in names:
            continue
        text = f"{field_of(name, columns)}: {file.name} has no column {name!r}"
        if not set(columns.named) & set(names):
            raise InputError(
                f"{text}, and none of the others that the config names", is_retryable=False
            )
        near = get_close_matches(name, names, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        shown = ", ".join(one[:80] for one in names[:_SHOWN])
        raise InputError(f"{text}{hint}; it has {shown}{more}", is_retryable=False)


def field_of(name: str, columns: ColumnSelection) -> str:
    """Return the field of the contract that names a column."""
    if name not in columns.fed:
        return "passThroughColumns"
    return columns.fed_field


def check_copied(copied: Sequence[str], file: InputFile) -> None:
    """Raise InputError if a column that joinSource copies has the name of a member of the
    results."""
    if fault := copied_fault(copied):
        raise InputError(
            f"joinSource: {file.name}: {fault}, or list the columns in passThroughColumns",
            is_retryable=False,
        )
