"""Records as the tensors of a request: in the datatype and the shape of the model's metadata. Pure.

A record is an array of any depth, a single value, or columns that the config maps to inputs. Without metadata, the datatype is
FP32, as in the Krateo controller, and the shape that of the records. A flat array gets the model's dimensions in row-major order.
One that is nested must have them, apart from dimensions of size 1. A record that does not fit gets an error; the others are sent.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy
import orjson

from inferrun.formats.json_text import array_of, bytes_in, json_of_bytes, json_texts
from inferrun.formats.record_errors import not_sent, selected, with_record_errors
from inferrun.plugins import (
    ArrowRecords,
    ContractError,
    InferenceError,
    JsonRecords,
    OutputTensor,
    Records,
    Results,
    Tensors,
)
from runner.protocols.v2.datatypes import (
    DATATYPES,
    EXACT,
    FLOATS,
    KINDS,
    Array,
    TensorValues,
    Unfit,
    json_of,
    narrowed,
    raw_of,
    to_array,
    to_bytes,
)
from runner.protocols.v2.tensors import described, requested, shape_of

DEFAULT_INPUT: Final = "input-0"
"""Name of the input if neither the InferenceConfig nor the model's metadata gives one."""

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input of the model, and what feeds it."""

    name: str
    datatype: str = "FP32"
    dimensions: tuple[int, ...] | None = None
    """Those of a record, without that of the batch; not positive if variable. None if the metadata does not specify them."""

    columns: tuple[str, ...] = ()
    """The columns that feed it; empty for the whole record."""

    field: str = "kserve.modelInputName"
    """Where the contract describes it."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The contract's tensors with what the model's metadata says about them."""

    inputs: tuple[ModelInput, ...]
    outputs: tuple[OutputTensor, ...] = ()
    unfed: tuple[str, ...] = ()
    """The model's inputs that nothing feeds."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a request."""

    name: str
    datatype: str
    shape: Sequence[int]
    content: bytes
    """The values as bytes; in a request in JSON as a flat JSON array, which every server accepts, where NaN is null."""

    given: tuple[int, ...] = ()
    """The dimensions of a record as it was given."""


def map_of(tensors: Tensors, metadata: object, wanted: str, *, target: str) -> TensorMap:
    """Compare the contract's tensors with the metadata. `wanted` is the name of an input that has none.

    Raises ContractError with the field for a tensor that the model does not have, and InferenceError for an unknown datatype.
    Metadata that lists no tensors says nothing.
    """
    known = {str(one.get("name")): one for one in described(metadata, "inputs")}
    inputs = tuple(_mapped(tensors, at, known, wanted) for at in range(len(tensors.inputs)))
    if not inputs:
        name = wanted or next(iter(known), DEFAULT_INPUT)
        inputs = (_described(name, known.get(name) or next(iter(known.values()), {})),)
    names = [one.name for one in inputs]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ContractError(f"tensors.inputs.{at}.name: {name!r} is named twice; name each input of the model once")
    for one in inputs:
        if one.datatype not in DATATYPES:
            raise InferenceError(
                f"{target}: input {one.name[:80]!r} has datatype {one.datatype[:16]}; records can be sent as "
                f"{', '.join(sorted(DATATYPES))}; set tensors.inputs.0.datatype to what the model takes",
                is_retryable=False,
            )
    _check_outputs(tensors.outputs, [str(one.get("name")) for one in described(metadata, "outputs")])
    unfed = tuple(name for name in known if name not in names) if tensors.inputs or names[0] in known else ()
    return TensorMap(inputs, tensors.outputs, unfed)


def _described(name: str, metadata: dict[str, Any], **given: Any) -> ModelInput:  # Any: JSON; fields of the input
    shape = shape_of(metadata)
    # The first dimension is that of the batch, unless it is the only one and has a fixed size.
    dimensions = None if not shape else tuple(shape) if len(shape) == 1 and shape[0] > 0 else tuple(shape[1:])
    datatype = given.pop("datatype", "") or str(metadata.get("datatype") or "FP32").upper()
    return ModelInput(name, datatype, dimensions, **given)


def _mapped(tensors: Tensors, at: int, known: Mapping[str, dict[str, Any]], wanted: str) -> ModelInput:  # Any: JSON
    given, field = tensors.inputs[at], f"tensors.inputs.{at}"
    name = given.name or wanted or (next(iter(known)) if len(known) == 1 else "" if known else DEFAULT_INPUT)
    if not name:
        raise ContractError(f"{field}.name: required, because the model has the inputs {_listed(known)}")
    if known and name not in known:
        raise ContractError(f"{field}.name: the model has no input {name!r}; it has {_listed(known)}")
    return _described(name, known.get(name, {}), datatype=given.datatype, columns=given.columns, field=field)


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


def tensor_of(records: Records, one: ModelInput, *, is_json: bool) -> Tensor:
    """Return records as a tensor, for a request in JSON or in bytes.

    Raises Unfit with a sentence if one of them cannot be sent, or if they have different shapes, and ContractError if they have no
    such form.
    """
    if plain := _plain_tensor(records, one, is_json=is_json):
        return plain
    columns = _columns_in(records, one)
    is_single = len(one.columns) == 1 or not columns[0][0]
    given: tuple[int, ...] = (len(columns),)
    parts = list[Any]()  # Any: TensorValues, all arrays or all bytes
    for name, values in columns:
        where = f"column {name!r}" if name else "the record"
        try:
            flat, given = _flattened(values) if is_single else (values, given)
            parts.append(_converted(flat, one.datatype, is_json=is_json))
        except Unfit as error:
            raise Unfit(f"{where} has {error} (tensor {one.name!r})") from error
    if len(one.columns) > 1:
        where = f"the record (columns {_listed(one.columns)})"
    shape = [len(records), *_dimensions_of(given, one, where=where if one.columns else "the record")]
    found = parts[0]
    if len(parts) > 1:  # row by row
        is_bytes = isinstance(found, list)
        found = list(chain.from_iterable(zip(*parts, strict=True))) if is_bytes else numpy.stack(parts, axis=1).ravel()
    return Tensor(one.name, one.datatype, shape, json_of(found) if is_json else raw_of(found, one.datatype), given)


_IN_NUMBERS: Final = b"0123456789.-+eEnul \t"
"""Of numbers and null, and what may be between them."""

_COMMAS: Final = bytes.maketrans(b"\n", b",")


def _plain_tensor(records: Records, one: ModelInput, *, is_json: bool) -> Tensor | None:
    """Return rows of numbers of which none is larger than the integers that FP32 has exactly; otherwise None.

    Most records are of this form. Their values need no check, and JSON has them as they were written.
    """
    if not isinstance(records, JsonRecords) or one.columns or one.datatype not in {"FP32", "FP64"}:
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
        shape = [len(records), *_dimensions_of((width,), one, where="")]
    except Unfit:
        return None
    if len(values) != width * len(records) or (numpy.abs(values) > EXACT["FP32"]).any():
        return None
    return Tensor(
        one.name, one.datatype, shape, content if is_json else values.astype(KINDS[one.datatype]).tobytes(), (width,)
    )


Values = Any  # Any: a list of JSON, or an Arrow array


def _columns_in(records: Records, one: ModelInput) -> list[tuple[str, Values]]:
    """Return what feeds the input: columns with their names, or the records themselves with an empty one."""
    if isinstance(records, ArrowRecords):
        return [(name, records.table.column(name)) for name in one.columns or records.table.schema.names]
    rows: list[Any] = orjson.loads(array_of(json_texts(records)))  # Any: JSON
    is_object = isinstance(rows[0], dict)
    if one.columns:
        if not is_object:
            raise ContractError(
                "tensors.inputs: the records of this input have no named columns; use csv, parquet, arrow, or objects"
            )
        return [(name, [row[name] for row in rows]) for name in one.columns]
    if is_object and bytes_in(rows[0]) is None:
        raise ContractError(
            "input: the protocols v2 and grpc-v2 need records that are arrays or single values; name the columns that feed the "
            "model in tensors.inputs, or choose another protocol in kserve.protocolVersion"
        )
    return [("", rows)]


def _flattened(values: Values) -> tuple[Values, tuple[int, ...]]:
    if not isinstance(values, list):
        from runner.protocols.v2.arrow_columns import flattened  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

        return flattened(values)
    dimensions: list[int] = []
    while values and isinstance(values[0], list):
        sizes = set(map(len, values)) if set(map(type, values)) == {list} else set()
        if len(sizes) != 1 or sizes == {0}:
            raise Unfit("arrays of different lengths, or empty ones")
        dimensions += sizes
        values = list(chain.from_iterable(values))
    return values, tuple(dimensions)


def _converted(values: Values, datatype: str, *, is_json: bool) -> TensorValues:
    numbers: Array | None = None
    if not isinstance(values, list):
        from runner.protocols.v2.arrow_columns import numbers_in  # noqa: PLC0415  as above

        numbers = None if datatype == "BYTES" else numbers_in(values, datatype)
        values = values.to_pylist() if numbers is None else ()
    if datatype == "BYTES":
        found = to_bytes(values)
        if is_json and any(not isinstance(json_of_bytes(value), str) for value in found):
            raise Unfit("bytes that are not UTF-8, which JSON cannot represent; use the protocol grpc-v2")
        return found
    array = to_array(values, datatype) if numbers is None else narrowed(numbers, datatype)
    if is_json and datatype in FLOATS and numpy.isinf(array).any():
        raise Unfit("an infinite number, which JSON cannot represent; use the protocol grpc-v2, or another value")
    return array


def _dimensions_of(own: tuple[int, ...], one: ModelInput, *, where: str) -> tuple[int, ...]:
    """Return the dimensions in which a record is sent. Raises Unfit if it does not have those of the metadata."""
    wanted = one.dimensions
    if wanted is None:
        return own or (1,)
    text = f"the model's metadata requires {{}} for the tensor {one.name!r}"
    if len(own) > 1:
        if len(own) == len(wanted) and all(size < 1 or size == has for size, has in zip(wanted, own, strict=True)):
            return own
        sizes = [size for size in own if size != 1]
        if [size for size in wanted if size != 1] != sizes:
            raise Unfit(f"{where} has dimensions {list(own)}, {text.format(list(wanted))}")
        return wanted
    count, known = math.prod(own), math.prod(size for size in wanted if size > 0)
    variable = sum(size < 1 for size in wanted)
    if variable > 1:
        raise Unfit(f"{where} has dimensions {list(own)}, {text.format(list(wanted))}; give it as nested arrays")
    if count % known or (not variable and count != known):
        multiple = "a multiple of " if variable else ""
        raise Unfit(f"{where} has {count} values, {text.format(f'{multiple}{known}')} (dimensions {list(wanted)})")
    return tuple(size if size > 0 else count // known for size in wanted)


async def predict_tensors(
    records: Records,
    inputs: Sequence[ModelInput],
    send: Callable[[list[Tensor], int], Awaitable[Results]],
    *,
    is_json: bool,
) -> Results:
    """Send records as tensors, without those that cannot be sent: these get an error."""
    try:
        tensors = [tensor_of(records, one, is_json=is_json) for one in inputs]
    except Unfit:
        errors = _faults(records, inputs, is_json=is_json)
    else:
        return await send(tensors, len(records))
    places = [at for at in range(len(records)) if at not in errors]
    results = await predict_tensors(selected(records, places), inputs, send, is_json=is_json) if places else None
    return with_record_errors(results, {at: not_sent(text) for at, text in errors.items()}, total=len(records))


def mismatch_of(records: Records, found: TensorMap, *, target: str, is_json: bool) -> str:
    """Return the inputs without values; empty if all have values. Raises InferenceError if none of the records can be sent."""
    faults = _faults(records, found.inputs, is_json=is_json)
    if len(faults) == len(records):
        raise InferenceError(f"{target}: {faults[0]}; correct tensors.inputs, or the input", is_retryable=False)
    if found.unfed:
        return f"{target}: the model's inputs {_listed(found.unfed)} are fed by no column; add them to tensors.inputs"
    return ""


def _faults(records: Records, inputs: Sequence[ModelInput], *, is_json: bool) -> dict[int, str]:
    """Return why records cannot be sent, by their position; found by halving. Those that are left have the same shapes."""
    faults: dict[int, str] = {}
    sendable: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    parts = [(0, len(records))]
    while parts:
        start, stop = parts.pop()
        part = records.part(start, stop)
        try:
            forms = tuple(tensor_of(part, one, is_json=is_json).given for one in inputs)
        except Unfit as error:
            if stop - start == 1:
                faults[start] = str(error)
            else:
                middle = (start + stop) // 2
                parts += [(middle, stop), (start, middle)]
        else:
            sendable.setdefault(forms, []).extend(range(start, stop))
    usual = max(sendable, key=lambda forms: len(sendable[forms]), default=())
    for forms, places in sendable.items():
        if forms != usual:
            text = f"the record has dimensions {_shown(forms)}, others have {_shown(usual)}"
            faults |= dict.fromkeys(places, text)
    return faults


def _shown(forms: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(str(list(dimensions)) for dimensions in forms)


def encode_json(tensors: Sequence[Tensor], outputs: Sequence[OutputTensor]) -> bytes:
    """Return the body of an infer request in JSON."""
    heads = [orjson.dumps({"name": one.name, "shape": list(one.shape), "datatype": one.datatype}) for one in tensors]
    inputs = b",".join(b'%b,"data":%b}' % (head[:-1], one.content) for head, one in zip(heads, tensors, strict=True))
    rest = b',"outputs":%b' % orjson.dumps(requested(outputs)) if outputs else b""
    return b'{"inputs":[%b]%b}' % (inputs, rest)
