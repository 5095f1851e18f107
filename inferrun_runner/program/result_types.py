"""Decides which columns the results of a run have, and their types. Whoever begins the run decides
it for all attempts.

What is copied has the types of the input, or if the input has none, those of the first records. The
type of a prediction is declared in the config, known by the protocol, or that of one prediction,
for which a request is sent whose answer is not stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

import orjson

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.exact_json import exact_value
from inferrun.formats.record_texts import copied_texts
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Batch,
    Block,
    Fault,
    InputPlan,
    Json,
    JsonRecords,
    ModelProtocol,
    ResultOptions,
    Results,
    Source,
)
from inferrun_runner.network.retries import with_retries

if TYPE_CHECKING:
    import pyarrow

_PREDICTION: Final = "prediction"
_TRIES: Final = 3
"""Records that are sent until one has a prediction."""


def first_valid(source: Source, plan: InputPlan) -> Block | None:
    """Return the first block with a record that can be sent; None if the first chunk has none.
    Blocks."""
    for one in plan.chunks[:1]:
        return next(
            (block for block in source.read(one) if len(block.errors) < len(block.records)), None
        )
    return None


async def typed_plan(
    plan: InputPlan,
    first: Block | None,
    model: ModelProtocol,
    options: ResultOptions,
    *,
    retry_seconds: float,
) -> InputPlan:
    """Return the plan with the columns of the results. Raises ContractError, InferenceError."""
    import pyarrow  # noqa: PLC0415  only runs with typed results pay for its import

    from inferrun.formats.result_schema import ResultSchema, result_schema  # noqa: PLC0415  as above

    predicted: pyarrow.DataType | None = None
    if _PREDICTION in options.types:
        predicted = pyarrow.json_()  # which the declared type replaces
    elif known := model.abilities.predicted:
        predicted = known()
    if predicted is None and plan.result_schema:
        predicted = ResultSchema.deserialized(plan.result_schema).predicted
    if predicted is None and first is not None:
        predicted = await _type_of_one(first, model, retry_seconds=retry_seconds)
    key, copied = columns_of(first) if first is not None else (None, [])
    schema = result_schema(
        key=key,
        copied=copied,
        predicted=predicted or pyarrow.json_(),
        types=options.types,
        is_flat=options.is_flat,
        field=options.label,
    )
    return replace(plan, result_schema=schema.serialized())


def columns_of(block: Block) -> "tuple[pyarrow.DataType | None, list[pyarrow.Field]]":
    """Return the type of the ids, None if there are none, and the columns that are copied."""
    import pyarrow  # noqa: PLC0415  as above

    if isinstance(block.copied, ArrowRecords):
        schema = block.copied.table.schema
        key = schema.field(ID_COLUMN).type if ID_COLUMN in schema.names else None
        return key, [one for one in schema if one.name != ID_COLUMN]
    key = None
    if block.ids:
        numbers = [one for one in block.ids if isinstance(one, int)]
        is_number = len(numbers) == sum(one is not None for one in block.ids)
        whole = pyarrow.uint64() if max(numbers, default=0) >= 2**63 else pyarrow.int64()
        key = whole if is_number else pyarrow.string()
    valid = [text for at, text in enumerate(copied_texts(block)) if at not in block.errors]
    rows = cast(
        "list[dict[str, Json]]", exact_value(b"[%b]" % b",".join(b"{%b}" % text for text in valid))
    )
    names = dict.fromkeys(name for row in rows for name in row)
    return key, [pyarrow.field(name, type_of([row.get(name) for row in rows])) for name in names]


def type_of(values: Sequence[Json], *, has_fractions: bool = False) -> "pyarrow.DataType":
    """Return the type that all values have; JSON texts if they have none in common, or are objects.

    With `has_fractions`, integers are floating-point numbers, as other values may be.
    """
    import pyarrow  # noqa: PLC0415  as above

    kinds = {type(one) for one in values if one is not None}
    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {str}:
        return pyarrow.string()
    if kinds and kinds <= {int, float}:
        is_long = any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in values)
        whole = pyarrow.json_() if is_long else pyarrow.int64()
        return pyarrow.float64() if has_fractions or float in kinds else whole
    if kinds == {list}:
        items = list(
            chain.from_iterable(
                cast("Iterable[list[Json]]", (one for one in values if one is not None))
            )
        )
        item = type_of(items, has_fractions=has_fractions)
        return item if item == pyarrow.json_() else pyarrow.list_(item)
    if dict in kinds and all(
        one is None or isinstance(one, str) or bytes_in(one) is not None for one in values
    ):
        return pyarrow.binary()
    return pyarrow.json_()


async def _type_of_one(
    block: Block, model: ModelProtocol, *, retry_seconds: float
) -> "pyarrow.DataType | None":
    """Return the type of the first prediction among a few records; None if all of them fail."""
    valid = [at for at in range(len(block.records)) if at not in block.errors]
    for at in valid[:_TRIES]:
        batch = Batch(first=at, records=block.records.part(at, at + 1))

        async def attempt(batch: Batch = batch) -> Results | None:
            try:
                return await model.predict(batch)
            except Fault as fault:
                if fault.is_transient:
                    raise
                return None

        results = await with_retries(attempt, budget=retry_seconds)
        if results is not None and not results.errors:
            match results.values:
                case ArrowRecords(table):
                    return table.schema.field(0).type
                case JsonRecords(texts):
                    return type_of([orjson.loads(texts[0])], has_fractions=True)
    return None


def predicted_type(schema: bytes) -> "pyarrow.DataType":
    """Return the type of a prediction in the columns of the results."""
    from inferrun.formats.result_schema import ResultSchema  # noqa: PLC0415  only runs with typed results import pyarrow

    return ResultSchema.deserialized(schema).predicted
