"""Records as the tensors of a request, in the datatypes and shapes of the model. Pure.

A record is an array of any depth, a single value, or columns that the config maps to inputs. A flat array gets the model's
dimensions in row-major order. One that is nested must have them, apart from dimensions of size 1. A record that does not fit gets
an error; the others are sent.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy
import orjson

from inferrun.formats.json_text import array_of, bytes_in, json_of_bytes
from inferrun.formats.record_errors import not_sent, selected, with_record_errors
from inferrun.plugins import ArrowRecords, ContractError, InferenceError, JsonRecords, Records, Results
from runner.protocols.tensors.datatypes import (
    EXACT,
    FLOATS,
    KINDS,
    Array,
    Faults,
    TensorValues,
    faults_at,
    to_array,
    to_bytes,
)
from runner.protocols.tensors.signature import Signature, TensorSpec, listed


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a request."""

    name: str
    datatype: str
    shape: Sequence[int]
    values: TensorValues
    parameters: Mapping[str, bool | int | str] = field(default_factory=dict)

    text: bytes = b""
    """The values as a flat JSON array, if the records have them as such."""


class Unfit(ValueError):
    """Records that cannot be sent, with the reason of each by its position."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(next(iter(faults.values())))
        self.faults = faults


def tensor_of(
    records: Records,
    spec: TensorSpec,
    *,
    is_json: bool,
    rows: Sequence[Any] | None = None,  # Any: JSON
) -> Tensor:
    """Return records as a tensor, for a request in JSON or in bytes. `rows` are the records decoded, if they are by now.

    Raises Unfit if some cannot be sent, or have other dimensions than most, and ContractError if they have no such form. When these
    records are omitted, more may be found.
    """
    if plain := _plain_tensor(records, spec, is_json=is_json):
        return plain
    columns = columns_in(records, spec, rows)
    if spec.decodes_images:
        return _decoded(columns, spec)
    is_single = len(columns) == 1 and not (isinstance(records, ArrowRecords) and not spec.columns)
    parts = list[TensorValues]()
    given: list[tuple[int, ...]] = [(len(columns),)]
    datatype = spec.datatype
    for name, column in columns:
        where = f"column {name!r}" if name else "the record"
        values: Values = column
        if is_single:
            values, given, faults = _structure_of(column)
            if faults:
                raise Unfit(_named(faults, where, spec, width=1))
            if len(given) > 1:
                break
        datatype = spec.datatype or _natural_datatype(column)
        found, faults = _converted(values, spec, datatype, is_json=is_json)
        if faults:
            width = max(math.prod(given[0]), 1) if is_single else 1
            raise Unfit(_named(faults, where, spec, width=width))
        parts.append(found)
    if not spec.columns:
        where = "the record"
    elif len(columns) > 1:
        where = f"the record (columns {listed(spec.columns)})"
    dimensions = _dimensions_of_all(given, spec, where=where, records=len(records))
    shape = [len(records), *dimensions] if spec.has_batch else list(dimensions)
    return Tensor(spec.name, datatype, shape, _row_by_row(parts), spec.parameters)


def _decoded(columns: "list[tuple[str, Values]]", spec: TensorSpec) -> Tensor:
    """Return the pixels of a column of images."""
    from runner.protocols.tensors.images import images_of  # noqa: PLC0415  only runs with images pay for the import of Pillow

    if len(columns) != 1 or spec.dimensions is None:
        raise ContractError(
            "tensors.inputs: decode: Image needs one column, and the shape that the model's metadata or shape states"
        )
    [(name, values)] = columns
    contents = values if isinstance(values, list) else values.to_pylist()
    contents = [one if isinstance(one, bytes) else bytes_in(one) for one in contents]
    found, faults = images_of(contents, dimensions=spec.dimensions, datatype=spec.datatype)
    if faults:
        raise Unfit({at: f"column {name!r} has {text} (tensor {spec.name!r})" for at, text in faults.items()})
    shape = [len(contents), *spec.dimensions] if spec.has_batch else list(spec.dimensions)
    return Tensor(spec.name, spec.datatype, shape, found, spec.parameters)


def _named(faults: Faults, where: str, spec: TensorSpec, *, width: int) -> Faults:
    """Return what is wrong with records, of whose values each has some."""
    found: Faults = {}
    for at, text in faults.items():
        found.setdefault(at // width, f"{where} has {text} (tensor {spec.name!r})")
    return found


_IN_NUMBERS: Final = b"0123456789.-+eEnul \t"
"""Of numbers and null, and what may be between them."""

_COMMAS: Final = bytes.maketrans(b"\n", b",")


def _plain_tensor(records: Records, spec: TensorSpec, *, is_json: bool) -> Tensor | None:
    """Return rows of numbers of which none is larger than the integers that FP32 has exactly; otherwise None.

    Most records are of this form. Their values need no check, and JSON has them as they were written.
    """
    if not isinstance(records, JsonRecords) or spec.columns or spec.datatype not in {"FP32", "FP64"}:
        return None
    rows = b"\n".join(records.texts)
    frame = rows.translate(None, _IN_NUMBERS)
    width = frame.find(b"]")
    if width < 1 or frame + b"\n" != b"[%b]\n" % (b"," * (width - 1)) * len(records):
        return None
    content = b"[%b]" % rows.translate(_COMMAS, b"[]")
    numbers: list[float] = orjson.loads(content)
    values = numpy.array(numbers, KINDS["FP64"])  # null is NaN
    try:
        dimensions = _dimensions_of((width,), spec, where="")
    except ValueError:
        return None
    if len(values) != width * len(records) or (numpy.abs(values) > EXACT["FP32"]).any():
        return None
    shape = [len(records), *dimensions] if spec.has_batch else list(dimensions)
    if not is_json:
        values = values.astype(KINDS[spec.datatype])
    return Tensor(spec.name, spec.datatype, shape, values, spec.parameters, content)


Values = Any  # Any: a list of JSON, or an Arrow array


def decoded(records: Records) -> list[Any] | None:  # Any: JSON
    """Return the values of JSON texts; None for columns."""
    return orjson.loads(array_of(records.texts)) if isinstance(records, JsonRecords) else None


def columns_in(
    records: Records,
    spec: TensorSpec,
    rows: Sequence[Any] | None = None,  # Any: JSON
) -> list[tuple[str, Values]]:
    """Return what feeds the input: columns with their names, or the records themselves with an empty one.

    `rows` are the records decoded, if they are by now. Raises ContractError for named columns of records that have none.
    """
    if isinstance(records, ArrowRecords):
        return [(name, records.table.column(name)) for name in spec.columns or records.table.schema.names]
    rows = rows or decoded(records) or []
    is_object = isinstance(rows[0], dict)
    if spec.columns:
        if not is_object:
            raise ContractError(
                "tensors.inputs: the records of this input have no named columns; use csv, parquet, arrow, or objects"
            )
        return [(name, [row[name] for row in rows]) for name in spec.columns]
    if is_object and bytes_in(rows[0]) is None:
        raise ContractError(
            "input: the protocols v2 and grpc-v2 need records that are arrays or single values; name the columns that feed the "
            "model in tensors.inputs, or choose another protocol in kserve.protocolVersion"
        )
    return [("", rows)]


def _structure_of(values: Values) -> tuple[Values, list[tuple[int, ...]], Faults]:
    """Return the values without the lists around them, the dimensions of each record, or of all, and what is wrong with records.

    If the records differ, or something is wrong with one, the values are incomplete.
    """
    if not isinstance(values, list):
        from runner.protocols.tensors.arrow_columns import structure_of  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

        return structure_of(values)
    dimensions: list[int] = []
    rows = values
    while values and set(map(type, values)) == {list}:
        sizes = set(map(len, values))
        if len(sizes) != 1 or sizes == {0}:
            break
        dimensions += sizes
        values = list(chain.from_iterable(values))
    if list not in set(map(type, values)):
        return values, [tuple(dimensions)], {}
    found = [_dimensions_in(row) for row in rows]
    text = "arrays of different lengths, or empty ones"
    return values, [one or () for one in found], {at: text for at, one in enumerate(found) if one is None}


def _dimensions_in(value: Any) -> tuple[int, ...] | None:  # Any: JSON
    """Return the dimensions of a record; None if there are none that all its values have."""
    if not isinstance(value, list):
        return ()
    inner = {_dimensions_in(one) for one in value}
    (one,) = inner if len(inner) == 1 else (None,)
    return None if one is None else (len(value), *one)


def _natural_datatype(column: Values) -> str:
    if isinstance(column, list):
        raise ContractError("tensors.inputs: the datatype of an input with JSON records is required")
    from runner.protocols.tensors.arrow_columns import natural_datatype  # noqa: PLC0415  as above

    return natural_datatype(column.type)


def _converted(values: Values, spec: TensorSpec, datatype: str, *, is_json: bool) -> tuple[TensorValues, Faults]:
    """Return values in the datatype of a tensor, and what is wrong with them."""
    found: TensorValues
    if isinstance(values, list):
        if spec.is_base64:
            values = [one["b64"] if isinstance(one, dict) and bytes_in(one) is not None else one for one in values]
        found, faults = to_bytes(values) if datatype == "BYTES" else to_array(values, datatype)
    else:
        from runner.protocols.tensors.arrow_columns import base64_of, values_of  # noqa: PLC0415  as above

        if spec.is_base64:
            values = base64_of(values)
        found, faults = values_of(values, datatype, is_stated=spec.is_stated)
    if is_json and not faults:
        faults = _unfit_for_json(found, datatype, takes_bytes=spec.is_instance)
    return found, faults


INFINITE: Final = "an infinite number, which JSON cannot represent; use the protocol grpc-v2, or another value"


def _unfit_for_json(values: TensorValues, datatype: str, *, takes_bytes: bool) -> Faults:
    if datatype in FLOATS and isinstance(values, numpy.ndarray):
        return faults_at(numpy.isinf(values), INFINITE)
    if datatype != "BYTES" or takes_bytes:
        return {}
    text = (
        "bytes that are not UTF-8, which JSON cannot represent; use the protocol grpc-v2, or set parameters.content_type of the "
        "input to base64"
    )
    if isinstance(values, list):
        return {at: text for at, one in enumerate(values) if not isinstance(json_of_bytes(one), str)}
    from runner.protocols.tensors.arrow_columns import no_texts_in  # noqa: PLC0415  as above

    return dict.fromkeys(no_texts_in(values), text)


def _row_by_row(parts: Sequence[TensorValues]) -> TensorValues:
    """Return the values of several columns as one tensor has them."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, numpy.ndarray) for part in parts):
        found: Array = numpy.stack(parts, axis=1).ravel()
        return found
    if all(isinstance(part, list) for part in parts):
        return list(chain.from_iterable(zip(*parts, strict=True)))
    from runner.protocols.tensors.arrow_columns import interleaved  # noqa: PLC0415  as above

    return interleaved(parts)


def _dimensions_of_all(
    given: Sequence[tuple[int, ...]], spec: TensorSpec, *, where: str, records: int
) -> tuple[int, ...]:
    """Return the dimensions in which records are sent: those that fit the model, and most of them have. Raises Unfit."""
    if len(set(given)) == 1:
        try:
            return _dimensions_of(given[0], spec, where=where)
        except ValueError as error:
            raise Unfit(dict.fromkeys(range(records), str(error))) from error
    faults: Faults = {}
    sendable: dict[tuple[int, ...], list[int]] = {}
    for at, one in enumerate(given):
        try:
            _dimensions_of(one, spec, where=where)
        except ValueError as error:
            faults[at] = str(error)
        else:
            sendable.setdefault(one, []).append(at)
    usual = max(sendable, key=lambda one: len(sendable[one]), default=())
    for one, places in sendable.items():
        if one != usual:
            faults |= dict.fromkeys(places, f"{where} has dimensions {list(one)}, others have {list(usual)}")
    raise Unfit(faults)


def _dimensions_of(own: tuple[int, ...], spec: TensorSpec, *, where: str) -> tuple[int, ...]:
    """Return the dimensions in which a record is sent. Raises ValueError if it does not have those of the model."""
    wanted = spec.dimensions
    if wanted is None:
        return own or (() if spec.is_instance else (1,))
    text = f"{spec.source} requires {{}} for the tensor {spec.name!r}"
    if len(own) > 1:
        if len(own) == len(wanted) and all(size < 1 or size == has for size, has in zip(wanted, own, strict=True)):
            return own
        sizes = [size for size in own if size != 1]
        if [size for size in wanted if size != 1] != sizes:
            raise ValueError(f"{where} has dimensions {list(own)}, {text.format(list(wanted))}")
        return wanted
    count, known = math.prod(own), math.prod(size for size in wanted if size > 0)
    variable = sum(size < 1 for size in wanted)
    if variable > 1:
        raise ValueError(f"{where} has dimensions {list(own)}, {text.format(list(wanted))}; give it as nested arrays")
    if count % known or (not variable and count != known):
        multiple = "a multiple of " if variable else ""
        raise ValueError(f"{where} has {count} values, {text.format(f'{multiple}{known}')} (dimensions {list(wanted)})")
    return tuple(size if size > 0 else count // known for size in wanted)


def tensors_of(
    records: Records, inputs: Sequence[TensorSpec], *, is_json: bool
) -> tuple[list[Tensor], list[int], Faults]:
    """Return the tensors of the records that can be sent, the positions of these, and why the others cannot be sent."""
    places, faults = list(range(len(records))), Faults()
    part = records
    while places:
        rows = decoded(part) if len(inputs) > 1 else None
        try:
            return [tensor_of(part, one, is_json=is_json, rows=rows) for one in inputs], places, faults
        except Unfit as error:
            faults |= {places[at]: text for at, text in error.faults.items()}
            places = [at for at in places if at not in faults]
            part = selected(records, places) if places else part
    return [], [], faults


async def predict_tensors(
    records: Records,
    inputs: Sequence[TensorSpec],
    send: Callable[[list[Tensor], int], Awaitable[Results]],
    *,
    is_json: bool,
) -> Results:
    """Send records as tensors, without those that cannot be sent: these get an error."""
    work = partial(tensors_of, records, inputs, is_json=is_json)
    is_slow = any(one.decodes_images for one in inputs)  # Pillow lets other threads run
    tensors, places, faults = await asyncio.to_thread(work) if is_slow else work()
    results = await send(tensors, len(places)) if places else None
    return with_record_errors(results, {at: not_sent(text) for at, text in faults.items()}, total=len(records))


def mismatch_of(signature: Signature, places: Sequence[int], faults: Faults, *, target: str) -> str:
    """Return how the contract differs from the metadata; empty if it does not. Raises InferenceError if no record can be sent."""
    if not places:
        raise InferenceError(f"{target}: {faults[0]}; correct tensors.inputs, or the input", is_retryable=False)
    return f"{target}: {'; '.join(signature.mismatches)}" if signature.mismatches else ""
