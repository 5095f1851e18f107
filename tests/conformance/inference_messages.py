"""The messages of V2 over gRPC, built with the protobuf library from their published definition,
for servers in tests."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _F.TYPE_STRING,
    "bytes": _F.TYPE_BYTES,
    "bool": _F.TYPE_BOOL,
    "int32": _F.TYPE_INT32,
    "int64": _F.TYPE_INT64,
    "uint32": _F.TYPE_UINT32,
    "uint64": _F.TYPE_UINT64,
    "float": _F.TYPE_FLOAT,
    "double": _F.TYPE_DOUBLE,
}

_MESSAGES: dict[str, str] = {
    "Contents": "bool bool_contents*1, int32 int_contents*2, int64 int64_contents*3, uint32 uint_contents*4, "
    "uint64 uint64_contents*5, float fp32_contents*6, double fp64_contents*7, bytes bytes_contents*8",
    "Tensor": "string name=1, string datatype=2, int64 shape*3, Contents contents=5",
    "ModelInferRequest": "string model_name=1, string model_version=2, string id=3, Tensor inputs*5, bytes raw_input_contents*7",
    "ModelInferResponse": "string model_name=1, string model_version=2, string id=3, Tensor outputs*5, bytes raw_output_contents*6",
    "ModelReadyRequest": "string name=1, string version=2",
    "ModelReadyResponse": "bool ready=1",
    "ModelMetadataRequest": "string name=1, string version=2",
    "TensorMetadata": "string name=1, string datatype=2, int64 shape*3",
    "ModelMetadataResponse": "string name=1, string versions*2, string platform=3, TensorMetadata inputs*4, "
    "TensorMetadata outputs*5",
}
"""Fields by message: `type name=number`, and `*` instead of `=` for a repeated field."""


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="inference_of_tests.proto", package="inference", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            kind, _, rest = text.strip().partition(" ")
            mark = "*" if "*" in rest else "="
            field_name, _, number = rest.partition(mark)
            field = message.field.add(name=field_name, number=int(number))
            field.label = _F.LABEL_REPEATED if mark == "*" else _F.LABEL_OPTIONAL
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = _F.TYPE_MESSAGE, f".inference.{kind}"
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def message_class(name: str) -> Any:  # Any: generated at run time
    """Return the class of a message."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"inference.{name}"))
