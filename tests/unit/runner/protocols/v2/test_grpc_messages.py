"""Responses of V2 over gRPC, compared with what the protobuf library reads."""

import random
import struct
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from runner.formats.json_text import json_of_bytes
from runner.protocols.v2.grpc_messages import decode_response
from tests.conformance.inference_messages import message_class
from tests.unit.runner.batches import decoded

RESPONSE = message_class("ModelInferResponse")
CONTENTS: dict[str, tuple[str, list[Any]]] = {  # Any: values of the datatype
    "BOOL": ("bool_contents", [False, True, False]),
    "INT8": ("int_contents", [0, -1, 127]),
    "INT32": ("int_contents", [0, -(1 << 31), 5]),
    "INT64": ("int64_contents", [0, -(1 << 63), 1 << 62]),
    "UINT32": ("uint_contents", [0, 1, (1 << 32) - 1]),
    "UINT64": ("uint64_contents", [0, 1, (1 << 64) - 1]),
    "FP32": ("fp32_contents", [0.0, -1.5, 2.0]),
    "FP64": ("fp64_contents", [0.0, 1e300, -0.5]),
    "BYTES": ("bytes_contents", [b"", b"a", b""]),
}


def typed(datatype: str, values: list[Any], *, shape: list[int] | None = None) -> bytes:  # Any: values
    """A response with typed contents."""
    message = RESPONSE(model_name="sum")
    output = message.outputs.add(name="o", datatype=datatype, shape=[len(values)] if shape is None else shape)
    getattr(output.contents, CONTENTS[datatype][0]).extend(values)
    return bytes(message.SerializeToString())


def expected(values: list[Any]) -> list[Any]:  # Any: values
    return [value.decode() if isinstance(value, bytes) else value for value in values]


@pytest.mark.parametrize("datatype", CONTENTS)
def test_each_type_of_contents_is_read(datatype: str) -> None:
    values = CONTENTS[datatype][1]
    assert decoded(decode_response(typed(datatype, values), records=3)) == expected(values)


@pytest.mark.parametrize("datatype", CONTENTS)
def test_contents_that_are_all_zero_or_empty_are_read(datatype: str) -> None:
    values = [CONTENTS[datatype][1][0]] * 3
    assert decoded(decode_response(typed(datatype, values), records=3)) == expected(values)


def test_empty_strings_are_values_if_there_is_no_shape() -> None:
    response = typed("BYTES", [b"", b"a", b"", b"b"], shape=[])
    assert decoded(decode_response(response, records=2)) == [["", "a"], ["", "b"]]


def test_integers_that_are_not_packed_are_read() -> None:
    """The specification requires it of every reader."""
    contents = b"\x18\x00\x18\x05\x18\x00"  # three times field 3, int64_contents
    tensor = b"\x0a\x01o\x12\x05INT64\x1a\x01\x03\x2a" + bytes([len(contents)]) + contents
    response = b"\x2a" + bytes([len(tensor)]) + tensor
    assert list(RESPONSE.FromString(response).outputs[0].contents.int64_contents) == [0, 5, 0]
    assert decoded(decode_response(response, records=3)) == [0, 5, 0]


def test_contents_of_several_types_are_invalid() -> None:
    message = RESPONSE.FromString(typed("FP64", [1.0, 2.0, 3.0]))
    message.outputs[0].contents.fp32_contents.extend([4.0, 5.0, 6.0])
    with pytest.raises(ValueError, match="values of several types"):
        decode_response(message.SerializeToString(), records=3)


COUNT = 5


def whole(chance: random.Random) -> bytes:
    """A valid response for five records, with bytes or typed contents, of one or two outputs."""
    message = RESPONSE(model_name="sum", id="1")
    is_raw = chance.random() < 0.5
    for name in ("o", "p")[: chance.randint(1, 2)]:
        datatype = chance.choice(["FP64", "INT64", "BYTES"])
        output = message.outputs.add(name=name, datatype=datatype, shape=[COUNT])
        values = [chance.choice([0, 1, 7]) for _ in range(COUNT)]
        if datatype == "BYTES":
            texts = [b"x" * value for value in values]
            raw = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        else:
            raw = struct.pack(f"<{COUNT}{'d' if datatype == 'FP64' else 'q'}", *values)
        if is_raw:
            message.raw_output_contents.append(raw)
        elif datatype == "BYTES":
            output.contents.bytes_contents.extend(texts)
        else:
            getattr(output.contents, CONTENTS[datatype][0]).extend(values)
    return bytes(message.SerializeToString())


def mutated(message: bytes, chance: random.Random) -> bytes:
    """Change, cut, remove or repeat bytes."""
    data = bytearray(message)
    for _ in range(chance.choice([1, 1, 2, 5])):
        start, end = sorted(chance.sample(range(len(data) + 1), 2))
        match chance.randrange(5):
            case 0:
                data = data[:start]
            case 1:
                del data[start:end]
            case 2:
                data[end:end] = data[start:end]
            case 3:
                data[start] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, data[start] ^ 1])
            case _:
                data[start:start] = bytes([chance.randrange(256)])
        if len(data) < 2:
            break
    return bytes(data)


def according_to_protobuf(message: bytes) -> list[Any] | None:  # Any: predictions
    """The values of the first output; None if the message is malformed."""
    try:
        found = RESPONSE.FromString(message)
    except DecodeError:
        return None
    raws = list(found.raw_output_contents)
    if not found.outputs or (raws and len(raws) != len(found.outputs)):
        return None
    output = found.outputs[0]
    if raws:
        return _values_in(raws[0], output.datatype.upper())
    filled = [list(value) for _, value in output.contents.ListFields()]
    return [json_of_bytes(one) if isinstance(one, bytes) else one for one in filled[0]] if filled else None


def _values_in(raw: bytes, datatype: str) -> list[Any] | None:  # Any: predictions
    codes = {"FP64": "d", "INT64": "q", "UINT64": "Q"}
    if datatype in codes and len(raw) % 8 == 0:
        return list(struct.unpack(f"<{len(raw) // 8}{codes[datatype]}", raw))
    values, at = [], 0
    while datatype == "BYTES" and at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        values.append(json_of_bytes(raw[at + 4 : at + 4 + size]))
        at += 4 + size
    return values or None


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_message_is_an_error_or_what_protobuf_reads(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    accepted = 0
    for _ in range(400):
        message = mutated(whole(chance), chance)
        try:
            results = decode_response(message, records=COUNT)
        except ValueError:
            continue
        accepted += 1
        found = according_to_protobuf(message)
        assert len(results) == COUNT
        if found is None or len(found) != COUNT:
            continue
        for at, value in enumerate(decoded(results)):
            assert at in results.errors or value == found[at], (message, decoded(results), found)
    assert accepted > 10


@pytest.mark.parametrize("seed", range(5))
def test_a_whole_message_is_read(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    for _ in range(100):
        message = whole(chance)
        assert decoded(decode_response(message, records=COUNT)) == according_to_protobuf(message)
