"""Records as the tensors of a request, in the datatypes and shapes of the model. Pure.

A record is an array of any depth, a single value, or columns that the config maps to inputs. A flat
array gets the model's dimensions in row-major order. One that is nested must have them, apart from
dimensions of size 1. A record that does not fit gets an error; the others are sent.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import numpy
import orjson

from inferrun.formats.bytes_in_json import bytes_in, json_of_bytes
from inferrun.formats.json_text import array_of, numbers_in
from inferrun.formats.record_errors import selected
from inferrun.plugins import ArrowRecords, ContractError, JsonRecords, MixedBatch, Records
from inferrun_runner.protocols.tensors.datatypes import (
    EXACT,
    FLOATS,
    KINDS,
    RAGGED,
    Array,
    Dimensions,
    Faults,
    TensorValues,
    faults_at,
    to_array,
    to_bytes,
    unfit,
)
from inferrun_runner.protocols.tensors.signature import TensorSpec, listed

if TYPE_CHECKING:
    from inferrun_runner.protocols.tensors.arrow_columns import ArrowColumn


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


def groups_of(records: Records, inputs: Sequence[TensorSpec]) -> Sequence[Sequence[int]]:
    """Return the positions of the records that can be in the same tensors, because their dimensions
    are equal, for each request.

    A record that cannot be sent is in any of them.
    """
    # Rows of several columns have as many values as these are.
    widths = (1,) if isinstance(records, ArrowRecords) else (0, 1)
    fed = [one for one in inputs if len(one.columns) in widths and not one.decodes_images]
    rows = decoded(records)
    found = [columns_in(records, one, rows)[0].flattened()[1] for one in fed]
    groups = defaultdict[tuple[Dimensions, ...], list[int]](list)
    for at, dimensions in enumerate(zip(*(one for one in found if len(one) > 1), strict=True)):
        groups[dimensions].append(at)
    return list(groups.values()) or [range(len(records))]


def tensors_of(
    records: Records, inputs: Sequence[TensorSpec], *, is_json: bool
) -> tuple[list[Tensor], list[int], Faults]:
    """Return the tensors of the records that can be sent, the positions of these, and why the
    others cannot be sent.

    Raises MixedBatch if they have different dimensions, all of which fit.
    """
    places, faults = list(range(len(records))), Faults()
    part = records
    while places:
        rows = decoded(part) if len(inputs) > 1 else None
        try:
            return (
                [tensor_of(part, one, is_json=is_json, rows=rows) for one in inputs],
                places,
                faults,
            )
        except Unfit as error:
            faults |= {places[at]: text for at, text in error.faults.items()}
            places = [at for at in places if at not in faults]
            part = selected(records, places) if places else part
    return [], [], faults


def tensor_of(
    records: Records,
    spec: TensorSpec,
    *,
    is_json: bool,
    rows: Sequence[Any] | None = None,  # Any: JSON
) -> Tensor:
    """Return records as a tensor, for a request in JSON or in bytes. `rows` are the records
    decoded, if they are by now.

    Raises Unfit if some cannot be sent, MixedBatch if they differ in dimensions, and ContractError
    if they have no such form. When these records are omitted, more may be found.
    """
    if plain := _plain_tensor(records, spec, is_json=is_json):
        return plain
    columns = columns_in(records, spec, rows)
    is_row = len(columns) > 1 or (isinstance(records, ArrowRecords) and not spec.columns)
    parts = [_part_of(one, spec, is_json=is_json, is_row=is_row) for one in columns]
    where = "the record"
    if spec.columns:
        where = (
            f"the record (columns {listed(spec.columns)})"
            if is_row
            else f"column {columns[0].name!r}"
        )
    given = [(len(columns),)] if is_row else parts[0].dimensions
    dimensions = _common_dimensions(given, spec, where=where, records=len(records))
    values = _row_by_row([one.values for one in parts])
    return Tensor(
        spec.name,
        parts[-1].datatype,
        spec.shape_of(len(records), dimensions),
        values,
        spec.parameters,
    )


def _plain_tensor(records: Records, spec: TensorSpec, *, is_json: bool) -> Tensor | None:
    """Return rows of numbers of which none is larger than the integers that FP32 has exactly;
    otherwise None.

    Most records are of this form. Their values need no check, and JSON has them as they were
    written.
    """
    if (
        not isinstance(records, JsonRecords)
        or spec.columns
        or spec.datatype not in {"FP32", "FP64"}
    ):
        return None
    if (found := numbers_in(records.texts)) is None:
        return None
    content, numbers, width = found
    values = numpy.array(numbers, KINDS["FP64"])  # null is NaN
    try:
        dimensions = _dimensions_of((width,), spec, where="")
    except ValueError:
        return None
    if (numpy.abs(values) > EXACT["FP32"]).any():
        return None
    if not is_json:
        values = values.astype(KINDS[spec.datatype])
    shape = spec.shape_of(len(records), dimensions)
    return Tensor(spec.name, spec.datatype, shape, values, spec.parameters, content)


def decoded(records: Records) -> list[Any] | None:  # Any: JSON
    """Return the values of JSON texts; None for columns."""
    return orjson.loads(array_of(records.texts)) if isinstance(records, JsonRecords) else None


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """Values of JSON that feed an input, one per record; empty name: the records themselves."""

    name: str
    values: list[Any]  # Any: JSON

    @property
    def datatype(self) -> str:
        """JSON has none."""
        raise ContractError(
            "tensors.inputs: the datatype of an input with JSON records is required"
        )

    def pylist(self) -> list[Any]:  # Any: JSON
        """Return the values."""
        return self.values

    def flattened(self) -> tuple["JsonColumn", list[Dimensions], Faults]:
        """Return the values without the lists around them, the dimensions of each record, or of
        all, and what is wrong.

        If the records differ, or something is wrong with one, the values are incomplete. Dimensions
        end with the first that is 0.
        """
        dimensions: list[int] = []
        values = self.values
        while (kinds := set(map(type, values))) == {list}:
            sizes = set(map(len, values))
            if len(sizes) != 1:
                break
            dimensions += sizes
            values = list(chain.from_iterable(values))
        if list not in kinds:
            return JsonColumn(self.name, values), [tuple(dimensions)], {}
        found = [_dimensions_in(row) for row in self.values]
        return (
            self,
            [one or () for one in found],
            {at: RAGGED for at, one in enumerate(found) if one is None},
        )

    def converted(self, spec: TensorSpec, datatype: str) -> tuple[TensorValues, Faults]:
        """Return the values in a datatype, and what is wrong with them."""
        if datatype != "BYTES":
            return to_array(self.values, datatype)
        values = self.values
        if spec.is_base64:
            values = [
                one["b64"] if isinstance(one, dict) and bytes_in(one) is not None else one
                for one in values
            ]
        return to_bytes(values)


def columns_in(
    records: Records,
    spec: TensorSpec,
    rows: Sequence[Any] | None = None,  # Any: JSON
) -> "Sequence[JsonColumn | ArrowColumn]":
    """Return what feeds the input: columns with their names, or the records themselves with an
    empty one.

    `rows` are the records decoded, if they are by now. Raises ContractError for named columns of
    records that have none.
    """
    if isinstance(records, ArrowRecords):
        from inferrun_runner.protocols.tensors.arrow_columns import ArrowColumn  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

        names = spec.columns or records.table.schema.names
        return [ArrowColumn(name, records.table.column(name)) for name in names]
    rows = rows or decoded(records) or []
    is_object = isinstance(rows[0], dict)
    if spec.columns and is_object:
        return [JsonColumn(name, [row[name] for row in rows]) for name in spec.columns]
    if spec.columns:
        raise ContractError(
            "tensors.inputs: the records of this input have no named columns; use csv, parquet, arrow, or objects"
        )
    if is_object and bytes_in(rows[0]) is None:
        raise ContractError(
            "input: the protocols v2 and grpc-v2 need records that are arrays or single values; name the columns that feed the "
            "model in tensors.inputs, or choose another protocol in kserve.protocolVersion"
        )
    return [JsonColumn("", list(rows))]


def _dimensions_in(value: Any) -> Dimensions | None:  # Any: JSON
    """Return the dimensions of a record; None if there are none that all its values have."""
    if not isinstance(value, list):
        return ()
    if list not in set(map(type, value)):
        return (len(value),)
    inner = {_dimensions_in(one) for one in value}
    (one,) = inner if len(inner) == 1 else (None,)
    return None if one is None else (len(value), *one)


@dataclass(frozen=True, slots=True)
class _Part:
    """A column of a tensor; without values if the records have different dimensions."""

    values: TensorValues
    dimensions: list[Dimensions]
    datatype: str


def _part_of(
    column: "JsonColumn | ArrowColumn", spec: TensorSpec, *, is_json: bool, is_row: bool
) -> _Part:
    """Return the values of a column in the datatype of a tensor. With `is_row`, records have one.
    Raises Unfit, ContractError."""
    datatype, found, width = spec.datatype, cast("TensorValues", []), 1
    if spec.decodes_images:
        from inferrun_runner.protocols.tensors.images import images_of  # noqa: PLC0415  only runs with images pay for the import of Pillow

        if is_row or spec.dimensions is None:
            raise ContractError(
                "tensors.inputs: decode: Image needs one column, and the shape that the model's metadata or shape states"
            )
        given = [spec.dimensions]
        found, faults = images_of(column.pylist(), dimensions=spec.dimensions, datatype=datatype)
    else:
        values, given, faults = column.flattened()
        if is_row and given != [()] and not faults:
            each = given if len(given) > 1 else given * len(column.values)
            faults = {at: unfit("an array", datatype) for at, own in enumerate(each) if own}
        if not faults and len(given) == 1:
            datatype, width = spec.datatype or values.datatype, max(math.prod(given[0]), 1)
            found, faults = values.converted(spec, datatype)
            if is_json and not faults:
                found = found if isinstance(found, (numpy.ndarray, list)) else found.to_pylist()
                faults = _unfit_for_json(found, datatype, takes_bytes=spec.is_instance)
    if faults:
        where = f"column {column.name!r}" if column.name else "the record"
        by_record: Faults = {}
        for at, text in faults.items():
            by_record.setdefault(at // width, f"{where} has {text} (tensor {spec.name!r})")
        raise Unfit(by_record)
    return _Part(found, given, datatype)


INFINITE: Final = (
    "an infinite number, which JSON cannot represent; use the protocol grpc-v2, or another value"
)


def _unfit_for_json(values: "Array | list[bytes]", datatype: str, *, takes_bytes: bool) -> Faults:
    if isinstance(values, numpy.ndarray):
        return faults_at(numpy.isinf(values), INFINITE) if datatype in FLOATS else {}
    try:
        b"\n".join(values).decode()
    except UnicodeDecodeError:
        pass
    else:
        return {}
    text = (
        "bytes that are not UTF-8, which JSON cannot represent; use the protocol grpc-v2, or set parameters.content_type of the "
        "input to base64"
    )
    return {
        at: text
        for at, one in enumerate(values)
        if not takes_bytes and not isinstance(json_of_bytes(one), str)
    }


def _row_by_row(parts: Sequence[TensorValues]) -> TensorValues:
    """Return the values of several columns as one tensor has them."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, numpy.ndarray) for part in parts):
        found: Array = numpy.stack(parts, axis=1).ravel()
        return found
    if all(isinstance(part, list) for part in parts):
        return list(chain.from_iterable(zip(*parts, strict=True)))
    from inferrun_runner.protocols.tensors.arrow_columns import interleaved  # noqa: PLC0415  as above

    return interleaved(parts)


def _common_dimensions(
    given: Sequence[Dimensions], spec: TensorSpec, *, where: str, records: int
) -> Dimensions:
    """Return the dimensions in which records are sent, which fit the model. Raises Unfit, and
    MixedBatch if they differ."""
    found, wrong = dict[Dimensions, Dimensions](), dict[Dimensions, str]()
    for own in dict.fromkeys(given):
        try:
            found[own] = _dimensions_of(own, spec, where=where)
        except ValueError as error:
            wrong[own] = str(error)
    if wrong:
        each = given if len(given) == records else [*given] * records
        raise Unfit({at: wrong[own] for at, own in enumerate(each) if own in wrong})
    if len(found) > 1:
        raise MixedBatch
    return next(iter(found.values()))


def _dimensions_of(own: Dimensions, spec: TensorSpec, *, where: str) -> Dimensions:
    """Return the dimensions in which a record is sent. Raises ValueError if it does not have those
    of the model."""
    wanted = spec.dimensions
    if wanted is None:
        return own or (() if spec.is_instance else (1,))
    if 0 in own and len(own) < len(wanted):  # nothing says how long lists within an empty one are
        own = (*own, *(max(size, 0) for size in wanted[len(own) :]))
    needs = f"{spec.source} requires {{}} for the tensor {spec.name!r}"
    if len(own) > 1:
        if len(own) == len(wanted) and all(
            size < 1 or size == has for size, has in zip(wanted, own, strict=True)
        ):
            return own
        if [size for size in wanted if size != 1] != [size for size in own if size != 1]:
            raise ValueError(f"{where} has dimensions {list(own)}, {needs.format(list(wanted))}")
        return wanted
    count, known = math.prod(own), math.prod(size for size in wanted if size > 0)
    variable = sum(size < 1 for size in wanted)
    if variable > 1:
        raise ValueError(
            f"{where} has dimensions {list(own)}, {needs.format(list(wanted))}; give it as nested arrays"
        )
    if count % known or (not variable and count != known):
        multiple = "a multiple of " if variable else ""
        raise ValueError(
            f"{where} has {count} values, {needs.format(f'{multiple}{known}')} (dimensions {list(wanted)})"
        )
    return tuple(size if size > 0 else count // known for size in wanted)
