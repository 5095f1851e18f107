"""Columns as the tensors that a config maps them to, checked against the model's metadata. Pure."""

import math
import struct
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import orjson

from inferrun.plugins import (
    ArrowRecords,
    ContractError,
    InferenceError,
    Json,
    OutputTensor,
    Records,
    Results,
    Tensors,
)
from runner.json_text import array_of, json_texts
from runner.number_text import number_of
from runner.record_errors import not_sent, with_record_errors
from runner.row_validation import kind_of
from runner.v2.raw import CODES, FLOATS, SENDABLE, RawTensor, Unsendable, joined_strings
from runner.v2.short_floats import SHORT_FLOATS, pack_short
from runner.v2.tensors import DEFAULT_INPUT, described, requested, shape_of

_JSON_FLOATS: Final = SHORT_FLOATS | FLOATS
_SHOWN: Final = 10

AS_BYTES: Final = SENDABLE | {"BYTES"}
"""Datatypes that can be sent as bytes."""


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """An input of the model, and the columns that feed it."""

    field: str
    """Where the contract describes it."""

    name: str
    datatype: str
    columns: tuple[str, ...]
    dimensions: int = 0
    """Number of dimensions in the metadata; 0 if it does not specify them."""

    width: int = 0
    """Values per record in the metadata; 0 if it does not specify them."""

    def shape(self, records: int, width: int) -> list[int]:
        """Return the shape of the tensor in a request."""
        if self.dimensions == 1 and width == 1:
            return [records]
        return [records, width, *([1] if self.dimensions == 3 else [])]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The contract's tensors with what the model's metadata says about them."""

    inputs: tuple[MappedTensor, ...] = ()
    outputs: tuple[OutputTensor, ...] = ()
    unfed: tuple[str, ...] = ()
    """The model's inputs that no column feeds."""


@dataclass(frozen=True, slots=True)
class TensorValues:
    """A tensor of a request."""

    name: str
    datatype: str
    shape: list[int]
    values: list[Json]


def map_of(tensors: Tensors, metadata: object, wanted: str) -> TensorMap:
    """Compare the contract's tensors with the metadata. `wanted` is the name of an input that has none.

    Raises ContractError with the field for a tensor that the model does not have. Metadata that lists no tensors says nothing.
    """
    known = {str(one.get("name")): one for one in described(metadata, "inputs")}
    inputs = tuple(_mapped(tensors, at, known, wanted) for at in range(len(tensors.inputs)))
    names = [one.name for one in inputs]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ContractError(f"tensors.inputs.{at}.name: {name!r} is named twice; name each input of the model once")
    _check_outputs(tensors.outputs, [str(one.get("name")) for one in described(metadata, "outputs")])
    unfed = tuple(name for name in known if inputs and name not in names)
    return TensorMap(inputs, tensors.outputs, unfed)


def _mapped(tensors: Tensors, at: int, known: Mapping[str, dict[str, Any]], wanted: str) -> MappedTensor:  # Any: JSON
    given, field = tensors.inputs[at], f"tensors.inputs.{at}"
    name = given.name or wanted or (next(iter(known)) if len(known) == 1 else "" if known else DEFAULT_INPUT)
    if not name:
        raise ContractError(f"{field}.name: required, because the model has the inputs {_listed(known)}")
    if known and name not in known:
        raise ContractError(f"{field}.name: the model has no input {name!r}; it has {_listed(known)}")
    one = known.get(name, {})
    shape = shape_of(one)
    return MappedTensor(
        field=field,
        name=name,
        datatype=given.datatype or str(one.get("datatype") or "FP32").upper(),
        columns=given.columns,
        dimensions=len(shape),
        width=max(math.prod(shape[1:]), 0) if shape and min(shape[1:], default=1) > 0 else 0,
    )


def _check_outputs(outputs: Sequence[OutputTensor], known: Sequence[str]) -> None:
    results: set[str] = set()
    for at, one in enumerate(outputs):
        if known and one.name not in known:
            raise ContractError(
                f"tensors.outputs.{at}.name: the model has no output {one.name!r}; it has {_listed(known)}"
            )
        name = one.result_name or one.name
        if name in results:
            raise ContractError(
                f"tensors.outputs.{at}.resultName: {name!r} is the name of another output; choose another name"
            )
        results.add(name)


def _listed(names: "Sequence[str] | Mapping[str, object]") -> str:
    shown = [repr(name[:80]) for name in names][:_SHOWN]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


Columns = Mapping[str, Sequence[Json]]


def columns_in(records: Records, tensors: Sequence[MappedTensor]) -> Columns:
    """Return the values of each column. Raises ContractError if the records have no columns."""
    names = dict.fromkeys(name for tensor in tensors for name in tensor.columns)
    if isinstance(records, ArrowRecords):
        return {name: records.table.column(name).to_pylist() for name in names}
    rows = orjson.loads(array_of(json_texts(records)))
    if not isinstance(rows[0], dict):
        raise ContractError(
            "tensors.inputs: the records of this input have no named columns; use csv, parquet, arrow, or objects"
        )
    return {name: [row[name] for row in rows] for name in names}


async def predict_mapped(
    records: Records, tensors: Sequence[MappedTensor], send: Callable[[list[TensorValues], int], Awaitable[Results]]
) -> Results:
    """Send records as tensors, without those that a datatype cannot represent: these get an error."""
    columns, total = columns_in(records, tensors), len(records)
    try:
        return await send(_values_of(columns, tensors, total), total)
    except Unsendable:
        errors = _faults(columns, tensors, total)
    if not errors:
        raise ContractError(
            f"{tensors[0].field}: the arrays of a column must have the same number of values in every record"
        )
    places = [at for at in range(total) if at not in errors]
    sendable = {name: [values[at] for at in places] for name, values in columns.items()}
    results = await send(_values_of(sendable, tensors, len(places)), len(places)) if places else None
    return with_record_errors(results, {at: not_sent(text) for at, text in errors.items()}, total=total)


def mismatch_of(records: Records, found: TensorMap, *, target: str) -> str:
    """Return how the first records differ from the metadata; empty if they do not.

    Raises InferenceError if no record can be sent: a column has values of the wrong type.
    """
    columns = columns_in(records, found.inputs)
    faults = _faults(columns, found.inputs, len(records))
    if len(faults) == len(records):
        raise InferenceError(f"{faults[0]}; correct tensors.inputs, or the input", is_retryable=False)
    if found.unfed:
        return f"{target}: the model's inputs {_listed(found.unfed)} are fed by no column; add them to tensors.inputs"
    sendable = next(at for at in range(len(records)) if at not in faults)
    for tensor in found.inputs:
        width = len(_flat([[columns[name][sendable]] for name in tensor.columns]))
        if tensor.width not in {0, width}:
            return (
                f"{target}: {tensor.field}.columns: the model's metadata requires {tensor.width} values per record for "
                f"{tensor.name!r}, the columns have {width}"
            )
    return ""


def _values_of(columns: Columns, tensors: Sequence[MappedTensor], records: int) -> list[TensorValues]:
    """Return the tensors of a request. Raises Unsendable."""
    found = []
    for tensor in tensors:
        values = _flat([columns[name] for name in tensor.columns])
        width, rest = divmod(len(values), records)
        if rest:
            raise Unsendable("arrays of different lengths")
        converted = converted_values(values, tensor.datatype)
        found.append(TensorValues(tensor.name, tensor.datatype, tensor.shape(records, width), converted))
    return found


def _flat(columns: Sequence[Sequence[Json]]) -> list[Json]:
    """Return the values of columns row by row. A single column may have arrays of one length."""
    if len(columns) > 1:
        return list(chain.from_iterable(zip(*columns, strict=True)))
    if set(map(type, columns[0])) != {list}:
        return list(columns[0])
    arrays = [one for one in columns[0] if isinstance(one, list)]
    if len(set(map(len, arrays))) > 1:
        raise Unsendable("arrays of different lengths")
    return list(chain.from_iterable(arrays))


def _faults(columns: Columns, tensors: Sequence[MappedTensor], records: int) -> dict[int, str]:
    """Return why records cannot be sent, by their position."""
    faults: dict[int, str] = {}
    for tensor in tensors:
        size = 0
        for at in range(records):
            try:
                values = [value for name in tensor.columns for value in _checked(columns[name][at], tensor, name)]
            except Unsendable as error:
                faults.setdefault(at, str(error))
                continue
            size = size or len(values)
            if len(values) != size:
                text = f"column {tensor.columns[0]!r} has {len(values)} values, previous records have {size}"
                faults.setdefault(at, text)
    return faults


def _checked(value: Json, tensor: MappedTensor, column: str) -> list[Json]:
    values = value if isinstance(value, list) and len(tensor.columns) == 1 else [value]
    try:
        return converted_values(values, tensor.datatype)
    except Unsendable:
        kind = kind_of(next(one for one in values if _is_unsendable(one, tensor.datatype)))
        raise Unsendable(
            f"column {column!r} has {kind} that datatype {tensor.datatype} of the tensor {tensor.name!r} cannot represent"
        ) from None


def _is_unsendable(value: Json, datatype: str) -> bool:
    try:
        converted_values([value], datatype)
    except Unsendable:
        return True
    return False


def converted_values(values: list[Json], datatype: str) -> list[Json]:
    """Return values as the datatype has them: a missing number is null. A text that is a number is one. Raises Unsendable."""
    kinds = set(map(type, values))
    if datatype == "BYTES":
        return values if kinds <= {str} else list(map(_text, values))
    if datatype in _JSON_FLOATS:
        numbers = values if kinds <= {int, float} else list(map(_float, values))
        return _short(numbers, datatype) if datatype in SHORT_FLOATS else numbers
    if datatype == "BOOL":
        return values if kinds <= {bool} else list(map(_bool, values))
    whole: list[Any] = values if kinds <= {int} else list(map(_int, values))  # Any: only integers are left
    if datatype in CODES:
        try:
            array(CODES[datatype], whole)
        except OverflowError as error:
            raise Unsendable(f"a value is not in the range of {datatype}") from error
    elif any(not -(1 << 63) <= one < 1 << 64 for one in whole):
        raise Unsendable("a value has more than 64 bits")
    return whole


def _short(values: list[Any], datatype: str) -> list[Json]:  # Any: numbers and None
    try:
        pack_short(values, datatype)
    except (OverflowError, struct.error) as error:
        raise Unsendable(f"a value is not in the range of {datatype}") from error
    return values


def _text(value: Json) -> Json:
    if value is None:
        raise Unsendable("a text is missing")
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _float(value: Json) -> Json:
    if value is None or isinstance(value, float):
        return None if value is None or math.isnan(value) else value
    if isinstance(value, (bool, int)):
        return int(value)
    found = number_of(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise Unsendable("not a number")
    return None if math.isnan(found) else float(found)


def _int(value: Json) -> Json:
    if isinstance(value, str):
        value = number_of(value.strip())
    if isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise Unsendable("not a whole number")


_BOOLEANS: Final[dict[Json, bool]] = {
    1: True,
    0: False,
    "true": True,
    "false": False,
    "t": True,
    "f": False,
    "1": True,
    "0": False,
}


def _bool(value: Json) -> Json:
    key = value.lower() if isinstance(value, str) else value
    if isinstance(key, (str, int, float)) and key in _BOOLEANS:
        return _BOOLEANS[key]
    raise Unsendable("not a boolean")


def raw_tensor(tensor: TensorValues) -> RawTensor:
    """Return a tensor with its values as bytes; its datatype must be one of AS_BYTES."""
    return RawTensor(tensor.name, tensor.datatype, tensor.shape, _raw_of(tensor))


def _raw_of(tensor: TensorValues) -> bytes:
    values: list[Any] = tensor.values  # Any: what `converted_values` returns for the datatype
    if tensor.datatype == "BYTES":
        return joined_strings(values)
    if tensor.datatype in SHORT_FLOATS:
        return pack_short(values, tensor.datatype)
    if tensor.datatype in _JSON_FLOATS:
        values = [math.nan if value is None else value for value in values]
    return array(CODES[tensor.datatype], values).tobytes()


def encode_json(tensors: Sequence[TensorValues], outputs: Sequence[OutputTensor]) -> bytes:
    """Return the body of an infer request with values as JSON."""
    body: dict[str, object] = {
        "inputs": [
            {"name": one.name, "shape": one.shape, "datatype": one.datatype, "data": one.values} for one in tensors
        ]
    }
    if outputs:
        body["outputs"] = requested(outputs)
    return orjson.dumps(body)
