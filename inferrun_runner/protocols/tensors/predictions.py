"""The predictions in the outputs of a response: one per record."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferrun.formats.json_text import objects_of
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import JsonRecords, Results
from inferrun_runner.protocols.tensors.answers import (
    ModelOutput,
    joined_errors,
    json_results,
    without_ones,
)
from inferrun_runner.protocols.tensors.datatypes import DATATYPES
from inferrun_runner.protocols.tensors.signature import OutputSpec, Signature, listed

if TYPE_CHECKING:
    import pyarrow


def results_of(
    found: Sequence[ModelOutput],
    signature: Signature,
    *,
    records: int,
    is_typed: bool = False,
    stored: "pyarrow.DataType | None" = None,
) -> Results:
    """Return one prediction per record from the wanted outputs, or the first one.

    A prediction is a value if there is one per record, otherwise a list in the output's shape.
    Dimensions of size 1 at the end are left out, unless the metadata or the contract says that they
    are variable: those are lists of any number of items. A record with an invalid value (null, NaN,
    infinity) gets an error. With `is_typed`, predictions are a column, of the type `stored`, or
    without one of the datatypes of the response. Raises ValueError with what violates the protocol.
    """
    by_name = {one.name: one for one in found}
    wanted = signature.outputs
    missing = [one.name for one in wanted if one.name not in by_name]
    if not found or (missing and signature.is_chosen):
        raise ValueError(
            f"it has no output {missing[0]!r}; it has {listed(by_name)}"
            if missing
            else "no outputs"
        )
    if missing or not wanted:  # the first one, whatever the metadata calls it
        wanted, by_name = (OutputSpec(found[0].name, found[0].name),), {found[0].name: found[0]}
    lists = {one: without_ones(one.dimensions or ()) for one in wanted}
    if stored is not None:
        from inferrun_runner.protocols.tensors.arrow_answers import dimensions_of  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        for one in wanted:
            kind = stored.field(one.result_name).type if signature.is_chosen else stored
            lists[one] = max(lists[one], dimensions_of(kind), key=len)
    shaped = {
        one: _shaped(by_name[one.name], records, has_batch=signature.has_batch, lists=dimensions)
        for one, dimensions in lists.items()
    }
    if is_typed and (
        stored is not None or all(one.datatype in DATATYPES for one in shaped.values())
    ):
        from inferrun_runner.protocols.tensors.arrow_answers import typed_results  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        return typed_results(shaped, stored, is_chosen=signature.is_chosen)
    parts = {one.result_name: json_results(output) for one, output in shaped.items()}
    if not signature.is_chosen:
        return next(iter(parts.values()))
    texts = objects_of({name: json_texts(part.values) for name, part in parts.items()})
    return Results(
        JsonRecords(texts), joined_errors({name: part.errors for name, part in parts.items()})
    )


def _shaped(
    output: ModelOutput, records: int, *, has_batch: bool, lists: Sequence[int]
) -> ModelOutput:
    """Return an output whose shape begins with the number of records. Raises ValueError if it has
    another.

    `lists`: the dimensions of a record that are lists, whatever their size is. Models that leave
    out dimensions of size 1, as numpy.squeeze does, mean one item, and without values none is in a
    list.
    """
    shape, count = output.shape, len(output.values)
    if not has_batch:
        shape = [1, *(shape or ([count] if count != 1 else []))]
    elif shape and shape[0] != records:
        raise ValueError(
            f"the output has {shape[0]} rows for {records} records, so it cannot be said which rows belong to which record"
        )
    if any(size < 0 for size in shape):
        raise ValueError(f"the output has the shape {shape}, which is no shape of values")
    shape = shape or [records, max(count // records, min(count, 1))]
    if count != math.prod(shape):
        raise ValueError(
            f"the output has {count} values, but its shape {shape} requires {math.prod(shape)}"
        )
    dimensions = without_ones(shape[1:], at_least=len(lists))
    missing = lists[len(dimensions) :]
    if count == 0 or all(size < 1 for size in missing):
        dimensions = [*dimensions, *(max(size, 1) for size in missing)]
    return ModelOutput(
        output.name, output.datatype, [records, *dimensions], output.values, output.is_json
    )
