"""What a model takes and returns: the contract's tensors, completed by the model's metadata. Pure.

The metadata decides datatype and shape. What the contract states is used instead of it; a
difference is named before the first request. Without both, the datatype is FP32, as in the Krateo
controller, and the shape that of the records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inferrun.contract import InputTensor
from inferrun.plugins import ContractError, InferenceError, OutputTensor, Tensors
from inferrun_runner.protocols.tensors.datatypes import DATATYPES

DEFAULT_INPUT: Final = "input-0"
"""Name of the input if neither the InferenceConfig nor the model's metadata gives one."""

_SHOWN: Final = 10

_METADATA: Final = "the model's metadata"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input of the model, and what feeds it."""

    name: str

    datatype: str = "FP32"
    """Empty: the values are sent as they are, in JSON."""

    dimensions: tuple[int, ...] | None = None
    """Those of a record, without that of the batch; not positive if variable. None if nothing
    specifies them."""

    has_batch: bool = True
    """Whether the tensor has a first dimension for the records. Without one, a request has one
    record."""

    is_single: bool = False
    """Whether the metadata says that a request has one record: its first dimension is 1."""

    columns: tuple[str, ...] = ()
    """The columns that feed it; empty for the whole record, which only the only input may be."""

    parameters: Mapping[str, bool | int | str] = field(default_factory=dict)

    is_stated: bool = False
    """Whether the contract states the datatype."""

    is_instance: bool = False
    """Whether it is part of an instance of V1: a single value is not an array, and bytes may be an
    object with their base64."""

    decodes_images: bool = False
    """Whether the values are the content of images, and the tensor has their pixels."""

    source: str = _METADATA
    """Where the dimensions stand."""

    def shape_of(self, records: int, dimensions: Sequence[int]) -> list[int]:
        """Return the shape of the tensor of records with these dimensions."""
        return [records, *dimensions] if self.has_batch else list(dimensions)

    @property
    def is_base64(self) -> bool:
        """Whether bytes are sent as their base64."""
        return self.parameters.get("content_type") == "base64"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """An output of the model."""

    name: str
    result_name: str

    datatype: str = ""
    """Empty: unknown."""

    dimensions: tuple[int, ...] | None = None
    """Those of a prediction; not positive if variable. None: unknown."""

    is_binary: bool = False
    """Whether values of the datatype BYTES are bytes, and not texts."""

    parameters: Mapping[str, bool | int | str] = field(default_factory=dict, hash=False)

    field: str = ""
    """Where the contract describes it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model."""

    inputs: tuple[TensorSpec, ...]

    outputs: tuple[OutputSpec, ...] = ()
    """Those that become predictions. If the contract names none, the first one of the metadata, as
    far as it is known."""

    is_chosen: bool = False
    """Whether the contract names the outputs, so that a prediction has a member for each."""

    parameters: Mapping[str, bool | int | str] = field(default_factory=dict)
    """The parameters of each request."""

    mismatches: tuple[str, ...] = ()
    """How the contract differs from the metadata, which may be wrong: MLServer's MLflow runtime
    calls outputs otherwise than their answers do."""

    note: str = ""
    """Inputs of the metadata that nothing feeds: V2 does not say which of them are optional."""

    @property
    def has_batch(self) -> bool:
        """Whether tensors have a dimension for records."""
        return all(one.has_batch for one in self.inputs)

    @property
    def is_single(self) -> bool:
        """Whether a request has one record."""
        return any(one.is_single or not one.has_batch for one in self.inputs)

    @property
    def requested(self) -> tuple[OutputSpec, ...]:
        """The outputs that a request names; empty: whatever the server returns."""
        return self.outputs if self.is_chosen else ()


def signature_of(
    tensors: Tensors, metadata: object, wanted: str, *, target: str, default: str = "FP32"
) -> Signature:
    """Compare the contract's tensors with the metadata. `wanted` is the name of an input that has
    none.

    `default` is the datatype without metadata; empty for V1, which has none, and whose metadata is
    that of the saved model, so that a name that it lacks is wrong. Raises ContractError with the
    field for that and for an input that is ambiguous, and InferenceError for an unknown datatype.
    Metadata that lists no tensors says nothing.
    """
    known = _described(metadata, "inputs")
    inputs, mismatches = list[TensorSpec](), list[str]()
    for at, given in enumerate(tensors.inputs):
        field = f"tensors.inputs.{at}"
        name = (
            given.name
            or wanted
            or (next(iter(known)) if len(known) == 1 else "" if known else DEFAULT_INPUT)
        )
        if not name:
            raise ContractError(
                f"{field}.name: required, because the model has the inputs {listed(known)}"
            )
        if not given.columns and len(tensors.inputs) > 1:
            raise ContractError(f"{field}.columns: required with several inputs")
        if any(name == one.name for one in inputs):
            raise ContractError(
                f"{field}.name: {name!r} is named twice; name each input of the model once"
            )
        found, differs = _input(name, known.get(name, {}), given, field, default=default)
        inputs.append(found)
        mismatches += [differs] if differs else []
    if not inputs:
        name = wanted or next(iter(known), DEFAULT_INPUT)
        described = known.get(name) or next(iter(known.values()), {})
        inputs = [_input(name, described, InputTensor(), "", default=default)[0]]
    for one in inputs:
        if one.datatype and one.datatype not in DATATYPES:
            raise InferenceError(
                f"{target}: input {one.name[:80]!r} has datatype {one.datatype[:16]}; records can be sent as "
                f"{', '.join(sorted(DATATYPES))}; set tensors.inputs.0.datatype to what the model takes",
                is_retryable=False,
            )
    names = [one.name for one in inputs]
    unfed = (
        [name for name in known if name not in names] if tensors.inputs or names[0] in known else []
    )
    note = (
        f"its inputs {listed(unfed)} are fed by no column, so they must be optional"
        if unfed
        else ""
    )
    results = _described(metadata, "outputs")
    lacking = [
        f"tensors.{side}.{at}.name: the model has no {side[:-1]} {name!r}; it has {listed(described)}"
        for side, given_names, described in (
            ("inputs", [one.name for one in tensors.inputs], known),
            ("outputs", [one.name for one in tensors.outputs], results),
        )
        for at, name in enumerate(given_names)
        if described and name and name not in described
    ]
    if lacking and not default:
        raise ContractError(lacking[0])
    mismatches += lacking
    outputs = _outputs(tensors.outputs, results, has_batch=all(one.has_batch for one in inputs))
    return Signature(
        tuple(inputs), outputs, bool(tensors.outputs), tensors.parameters, tuple(mismatches), note
    )


def shape_of(tensor: Mapping[str, Any]) -> list[int]:  # Any: foreign JSON
    """Return the shape of an input or output; empty if it has none."""
    shape = tensor.get("shape")
    return shape if isinstance(shape, list) and all(type(size) is int for size in shape) else []


def listed(names: "Sequence[str] | Mapping[str, object]") -> str:
    """Return names for a message, of which the first ones are shown."""
    shown = [repr(name[:80]) for name in names][:_SHOWN]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _described(metadata: object, side: str) -> dict[str, dict[str, Any]]:  # Any: foreign JSON
    """Return what a model's metadata says about its `inputs` or `outputs`, by their names; empty if
    it says nothing."""
    found = metadata.get(side) if isinstance(metadata, dict) else None
    return (
        {str(one.get("name")): one for one in found if isinstance(one, dict)}
        if isinstance(found, list)
        else {}
    )


def _input(
    name: str,
    metadata: Mapping[str, Any],  # Any: JSON
    given: InputTensor,
    field: str,
    *,
    default: str,
) -> tuple[TensorSpec, str]:
    """Return an input, and how the contract differs from the metadata; empty if it does not."""
    datatype = str(metadata.get("datatype") or "").upper()
    shape = shape_of(metadata)
    differs = ""
    if given.datatype and datatype and given.datatype != datatype:
        differs = (
            f"{field}.datatype: {given.datatype}, but the model's metadata has {datatype[:16]}"
        )
    dimensions, has_batch, source = _of_record(shape), True, _METADATA
    if given.shape is not None:
        source, has_batch = f"{field}.shape", given.shape[:1] == (-1,)
        dimensions = given.shape[1:] if has_batch else given.shape
        pairs = zip(given.shape, shape, strict=False)
        if shape and (
            len(given.shape) != len(shape) or any(a != b and a > 0 and b > 0 for a, b in pairs)
        ):
            differs = f"{field}.shape: {list(given.shape)}, but the model's metadata has {shape}"
    found = TensorSpec(
        name,
        given.datatype or datatype or default,
        dimensions,
        has_batch,
        given.shape is None and len(shape) > 1 and shape[0] == 1,
        given.columns,
        given.parameters,
        is_instance=not default,
        is_stated=bool(given.datatype),
        source=source,
        decodes_images=given.decode == "Image",
    )
    return found, differs


def _of_record(shape: Sequence[int]) -> tuple[int, ...] | None:
    """The first dimension is that of the batch, unless it is the only one and has a fixed size."""
    if not shape:
        return None
    return tuple(shape) if len(shape) == 1 and shape[0] > 0 else tuple(shape[1:])


def _outputs(
    wanted: Sequence[OutputTensor],
    known: Mapping[str, dict[str, Any]],  # Any: JSON
    *,
    has_batch: bool,
) -> tuple[OutputSpec, ...]:
    found = dict[str, OutputSpec]()
    for at, one in enumerate(wanted or [OutputTensor(name=name) for name in list(known)[:1]]):
        field = f"tensors.outputs.{at}"
        name = one.result_name or one.name
        metadata = known.get(one.name, {})
        if name in found:
            raise ContractError(
                f"{field}.resultName: {name!r} is the name of another output; choose another name"
            )
        datatype = one.datatype or str(metadata.get("datatype") or "").upper()
        shape = shape_of(metadata) or None if one.shape is None else one.shape
        dimensions = (
            None if shape is None else (_of_record(shape) or ()) if has_batch else tuple(shape)
        )
        known_datatype = datatype if datatype in DATATYPES else ""
        is_binary = one.type == "Binary"
        found[name] = OutputSpec(
            one.name, name, known_datatype, dimensions, is_binary, one.parameters, field
        )
    return tuple(found.values())
