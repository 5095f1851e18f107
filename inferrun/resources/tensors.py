"""`spec.tensors`: how records become the model's inputs, and the model's outputs predictions."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from inferrun.fields.resource_model import ResourceModel

ColumnName = Annotated[str, Field(min_length=1, max_length=256)]
TensorName = Annotated[str, Field(min_length=1, max_length=256)]
Datatype = Annotated[
    str, Field(max_length=16, pattern=r"^(BOOL|U?INT(8|16|32|64)|FP16|BF16|FP32|FP64|BYTES)$")
]
Shape = Annotated[tuple[Annotated[int, Field(ge=-1, le=2_147_483_647)], ...], Field(max_length=16)]

PARAMETER_LIMIT = 1024


def _scalars(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name, value in values.items():
        is_number = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
        if not (is_number or (isinstance(value, str) and len(value) <= PARAMETER_LIMIT)):
            allowed = f"a string of at most {PARAMETER_LIMIT} characters, an integer or a boolean"
            raise ValueError(f"{name[:80]!r} must be {allowed}")
    return values


TensorParameters = Annotated[dict[str, JsonValue], Field(max_length=16), AfterValidator(_scalars)]


class BytesType(StrEnum):
    """What values of the datatype BYTES are."""

    STRING = "String"
    BINARY = "Binary"


class Decoding(StrEnum):
    """What bytes are decoded to."""

    NONE = "None"
    IMAGE = "Image"


class TensorInput(ResourceModel):
    """An input of the model, and the columns that feed it."""

    name: TensorName | None = None
    """Name of the model's input. Default: kserve.modelInputName, or the model's only input."""

    columns: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=4096)] | None = None
    """Columns of the input that feed it, in the order of the tensor. One column of arrays is
    allowed, too. Default, for the only input: the whole record, such as an array."""

    datatype: Datatype | None = None
    """Datatype of the tensor. Default: that of the model's metadata, or FP32 without metadata; with
    v1, the values are then sent as they are. Decimal columns are sent only if this is FP64."""

    shape: Shape | None = None
    """Shape of the tensor, with -1 for a dimension of any size. The first one is -1 for the
    records; without it, each record is a request, and [] is a single value. Default: that of the
    model's metadata, or of the records."""

    parameters: TensorParameters | None = None
    """Parameters of the input in each request, such as content_type; with v2 and grpc-v2. With
    content_type base64, bytes are sent as their base64."""

    decode: Decoding | None = None
    """Image: the column has the content of images, such as content with the format files. They
    become pixels of the size and layout of the shape, [-1, channels, height, width] or [-1, height,
    width, channels]; floats are from 0 to 1. Default: None."""


class TensorOutput(ResourceModel):
    """An output of the model that becomes part of the predictions."""

    name: TensorName
    """Name of the model's output."""

    result_name: TensorName | None = None
    """Its name in the predictions. Default: the same."""

    datatype: Datatype | None = None
    """Datatype of the output, which decides the type of the column in typed results. Default: that
    of the model's metadata."""

    shape: Shape | None = None
    """Shape of the output, with -1 for a dimension of any size; the first one is that of the
    records. Default: that of the model's metadata."""

    type: BytesType | None = None
    """What values of the datatype BYTES are in typed results. String, the default: texts in UTF-8;
    others are errors of their records. Binary: bytes."""

    parameters: TensorParameters | None = None
    """Parameters of the output in each request, such as classification; with v2 and grpc-v2."""


class TensorMapping(ResourceModel):
    """How columns become the model's inputs, and the model's outputs predictions."""

    inputs: Annotated[tuple[TensorInput, ...], Field(max_length=64)] | None = None
    """The model's inputs with their columns. Default: one input, which all columns feed that are
    not copied by passThroughColumns."""

    outputs: Annotated[tuple[TensorOutput, ...], Field(max_length=64)] | None = None
    """The model's outputs that are stored: a prediction is then an object with a member for each.
    Default: the first output is the prediction."""

    parameters: TensorParameters | None = None
    """Parameters of each request. With v1, they are members of it beside the instances, such as
    signature_name."""
