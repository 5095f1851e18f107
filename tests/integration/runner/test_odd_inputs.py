"""Inputs that are legal but unusual, and inputs that are not: each is predicted in its place, or
named with what to change."""

import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pytest
from pyarrow import ipc, parquet

from tests.integration.runner.pods import Ended, Machine

pytestmark = pytest.mark.thorough

JsonObject = dict[str, Any]  # Any: JSON


def table(**columns: Any) -> bytes:  # Any: values of a column
    """A Parquet file."""
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


def arrow_of(content: pyarrow.Table, *, is_stream: bool = False) -> bytes:
    """An Arrow IPC file, or a stream."""
    out = io.BytesIO()
    with (ipc.new_stream if is_stream else ipc.new_file)(out, content.schema) as writer:
        writer.write_table(content)
    return out.getvalue()


def zstd(content: bytes, *, frames: int) -> bytes:
    """Compressed content of several frames."""
    codec, size = pyarrow.Codec("zstd"), -(-len(content) // frames)
    parts = (content[start : start + size] for start in range(0, len(content), size))
    return b"".join(codec.compress(part, asbytes=True) for part in parts)


@dataclass(frozen=True)
class Case:
    """Files, their format, and what a run of them returns."""

    files: Mapping[str, bytes]
    format: str = "jsonl"
    contract: JsonObject = field(default_factory=dict)
    is_empty: bool = False


async def run(machine: Machine, case: Case) -> tuple[Ended, list[JsonObject]]:
    folder = machine.input / "in"
    folder.mkdir()
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    path = "in" if len(case.files) > 1 else f"in/{next(iter(case.files))}"
    machine.contract |= {
        "input": {
            "file": {
                "claimName": "given",
                "path": path,
                "format": case.format,
                "allowEmpty": case.is_empty,
            }
        },
        "output": {"file": {"claimName": "made", "path": "out"}},
        **case.contract,
    }
    ended = await machine.pod()
    found = machine.output / "out" / machine.contract["jobName"] / "predictions"
    parts = sorted(found.iterdir()) if found.exists() else []
    return ended, [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]


SUMS: dict[str, tuple[Case, list[float]]] = {
    "a byte order mark and the line ends of Windows": (
        Case({"a.jsonl": b"\xef\xbb\xbf[1,2]\r\n[3,4]\r\n"}),
        [3, 7],
    ),
    "empty files between others": (
        Case({"a.jsonl": b"", "b.jsonl": b"[1]\n", "c.jsonl": b"\n", "d.jsonl": b"[2]"}),
        [1, 2],
    ),
    "gzip of several members and padding": (
        Case(
            {
                "a.jsonl.gz": gzip.compress(b"[1]\n[2")
                + gzip.compress(b"]\n[3]")
                + gzip.compress(b"")
                + b"\0" * 99
            }
        ),
        [1, 2, 3],
    ),
    "zstd of several frames": (
        Case({"a.jsonl.zst": zstd(b"[1]\n[2]\n" * 500, frames=7)}),
        [1, 2] * 500,
    ),
    "the largest integer up to which FP32 has all": (
        Case({"a.jsonl": b"[16777216]\n"}),
        [16777216],
    ),
    "a column of a dictionary": (
        Case({"a.parquet": table(a=pyarrow.array([1, 2]).dictionary_encode())}, "parquet"),
        [1, 2],
    ),
    "CSV of a dialect, with line breaks in quotes": (
        Case(
            {"a.tsv": b"1\t'2\n'\t\xe9\r\n'3'\t 0 \t'it\\'s\n\n'\r\n" * 900},
            contract={
                "input": {
                    "file": {
                        "claimName": "given",
                        "path": "in/",
                        "format": "csv",
                        "csv": {
                            "delimiter": "\t",
                            "quote": "'",
                            "escape": "\\",
                            "encoding": "iso-8859-1",
                            "columns": ["a", "b", "custom_id"],
                        },
                    }
                }
            },
        ),
        [3, 3] * 900,
    ),
    "columns in another order in Parquet": (
        Case({"a.parquet": table(a=[1], b=[2]), "b.parquet": table(b=[3], a=[4])}, "parquet"),
        [3, 7],
    ),
}


@pytest.mark.parametrize("name", SUMS)
async def test_each_record_is_predicted_in_its_place(machine: Machine, name: str) -> None:
    case, sums = SUMS[name]
    ended, results = await run(machine, case)
    assert (ended.code, ended.message.partition("; not read: ")[0]) == (
        0,
        f"{len(sums)} of {len(sums)} records predicted",
    )
    assert [(one["index"], one["prediction"]) for one in results] == list(enumerate(sums))


DEEP = b"[" * 300 + b"]" * 300
NAMED: dict[str, tuple[Case, str]] = {
    "gzip with something after it": (
        Case({"a.jsonl.gz": gzip.compress(b"[1]\n") + b"garbage"}),
        "a.jsonl.gz is not a complete gzip file",
    ),
    "zstd that ends early": (
        Case({"a.jsonl.zst": zstd(b"[1]\n" * 9000, frames=1)[:-9]}),
        "a.jsonl.zst is not a complete zstd file",
    ),
    "a member that is nested too deeply": (
        Case({"a.jsonl": b'{"inputs":[1],"x":%b}\n' % DEEP}, contract={"joinSource": "Input"}),
        "a.jsonl line 1 cannot be used: a value cannot be written as JSON (Recursion limit reached)",
    ),
    "semicolons": (
        Case({"a.csv": b"a;b\n1;2\n"}, "csv"),
        'a.csv line 1: the columns are separated by semicolons; set csv.delimiter: ";"',
    ),
    "a header in another encoding": (
        Case({"a.csv": "é,b\n1,2\n".encode("latin-1")}, "csv"),
        "a.csv line 1 is not in UTF-8; set csv.encoding",
    ),
    "columns in another order": (
        Case({"a.csv": b"a,b\n1,2\n", "b.csv": b"b,a\n3,4\n"}, "csv"),
        "b.csv has other columns, or columns of other types or in another order, than the previous files",
    ),
    "an Arrow IPC stream": (
        Case({"a.arrow": arrow_of(pyarrow.table({"a": [1]}), is_stream=True)}, "arrow"),
        "a.arrow is an Arrow IPC stream; write it in the format of files (Feather version 2)",
    ),
    "two columns of one name": (
        Case(
            {
                "a.arrow": arrow_of(
                    pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
                )
            },
            "arrow",
        ),
        "a.arrow has several columns 'a'; each needs a name of its own",
    ),
    "a column of no type": (
        Case({"a.parquet": table(a=pyarrow.nulls(1), b=[1])}, "parquet"),
        "a.parquet: column 'a' has type null; allowed are numbers, booleans, and a column custom_id of strings or integers",
    ),
    "a nested column": (
        Case({"a.parquet": table(a=[{"x": 1}], b=[1])}, "parquet"),
        "if it is not for the model, name those that are in tensors.inputs",
    ),
    "ids that are bytes": (
        Case({"a.parquet": table(custom_id=[b"x"], b=[1])}, "parquet"),
        "a.parquet: column 'custom_id' has type binary; allowed are strings and integers",
    ),
}


@pytest.mark.parametrize("name", NAMED)
async def test_what_cannot_be_used_is_named(machine: Machine, name: str) -> None:
    case, message = NAMED[name]
    ended, _ = await run(machine, case)
    assert message in ended.message
    assert (ended.code, ended.result.retryable) == (3, False)


async def test_a_date_that_json_cannot_have_is_an_error_of_its_record(machine: Machine) -> None:
    content = table(a=[1, 2], day=pyarrow.array([10**8, 0], pyarrow.date32()))
    case = Case({"a.parquet": content}, "parquet", {"passThroughColumns": ["day"]})
    ended, results = await run(machine, case)
    assert (ended.code, ended.result.records.failed) == (0, 1)
    assert [(one["index"], one["day"], "prediction" in one) for one in results] == [
        (0, None, False),
        (1, "1970-01-01", True),
    ]
    assert (
        "column 'day', of type date32[day], cannot be written as JSON"
        in results[0]["error"]["message"]
    )


KINDS = [
    pyarrow.string(),
    pyarrow.large_string(),
    pyarrow.string_view(),
    pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_ids_may_be_strings_of_any_type(machine: Machine, kind: pyarrow.DataType) -> None:
    content = table(custom_id=pyarrow.array(["x", None], kind), a=[1, 2])
    ended, results = await run(machine, Case({"a.parquet": content}, "parquet"))
    assert ended.code == 0, ended.message
    assert [one.get("custom_id") for one in results] == ["x", None]
