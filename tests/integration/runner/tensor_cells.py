"""The cells of the table of datatypes, ranks, protocols and formats: which are tested with which
server, and why others are not.

`docs/reference/tested.md` has the table, which `python -m tests.integration.runner.tensor_cells`
writes.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy
import orjson
import pyarrow
from pyarrow import parquet

from inferrun.formats.arrow.format import ARROW
from inferrun.formats.csv.format import CSV
from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.parquet.format import PARQUET
from inferrun.formats.result_schema import result_schema
from inferrun.plugins import Batch, Block, Chunk, ColumnSelection, Limits, RecordFormat, Results
from inferrun_runner.protocols.tensors.datatypes import KINDS
from inferrun_runner.stores.file.local_files import MemoryFile
from tests.integration.runner.echo_servers import DATATYPES, DIMENSIONS, values_of
from tests.unit.runner.batches import ARROW_TYPES

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "tested.md"

JUDGES: Final = {
    "kserve-json": ("v2 in JSON", "KServe's SDK"),
    "mlserver-json": ("v2 in JSON", "MLServer"),
    "kserve-binary": ("v2 in bytes", "KServe's SDK"),
    "triton-binary": ("v2 in bytes", "Triton's client"),
    "kserve-grpc": ("grpc-v2", "KServe's SDK"),
    "mlserver-grpc": ("grpc-v2", "MLServer"),
    "triton-grpc": ("grpc-v2", "Triton's client"),
    "kserve-v1": ("v1", "KServe's SDK"),
}
SERVERS: Final = tuple(name for name in JUDGES if not name.startswith("triton"))

ALL_DATATYPES: Final = (*DATATYPES, "BF16")


@dataclass(frozen=True, slots=True)
class Form:
    """How a file has the values of records."""

    title: str
    record_format: RecordFormat
    lists: str = "list"

    @property
    def is_table(self) -> bool:
        """Whether the file has types, and so do the results."""
        return self.record_format in (PARQUET, ARROW)


FORMS: Final = {
    "jsonl": Form("JSON lines", JSONL),
    "csv": Form("CSV", CSV),
    "parquet": Form("Parquet, values and lists", PARQUET),
    "large": Form("Parquet, large lists", PARQUET, "large"),
    "fixed": Form("Parquet, lists of a fixed size", PARQUET, "fixed"),
    "tensor": Form("Arrow, tensors of a fixed shape", ARROW, "tensor"),
}


def why_not(judge: str, form: str, datatype: str, rank: int) -> str:
    """Return why a cell is not tested; empty if it is."""
    server, is_list = judge.partition("-")[0], form in {"large", "fixed", "tensor"}
    reasons = {
        "a value of CSV is no list": form == "csv" and rank > 2,
        "a value that is no list is the same in each kind of list": is_list and rank < 2,
        "KServe's SDK and MLServer have no BF16": datatype == "BF16" and server != "triton",
        "KServe's SDK rejects FP16 in JSON": datatype == "FP16" and judge == "kserve-json",
        "MLServer's codec of texts has no tensors of rank 0": server == "mlserver"
        and (datatype, rank) == ("BYTES", 0),
        "an instance of V1 always has a dimension for records": judge == "kserve-v1" and rank == 0,
        "a request does not show the format of the file": server == "triton" and form != "jsonl",
        "Arrow's tensors have numbers": form == "tensor" and datatype in {"BOOL", "BYTES"},
    }
    return next((text for text, applies in reasons.items() if applies), "")


def ranks_of(judge: str, form: str, datatype: str) -> list[int]:
    """Return the ranks that are tested."""
    return [rank for rank in DIMENSIONS if not why_not(judge, form, datatype, rank)]


# Any: JSON
def column_of(
    values: list[Any], datatype: str, dimensions: tuple[int, ...], lists: str
) -> pyarrow.Array:
    """Return a column of records, with lists of a kind."""
    kind = ARROW_TYPES.get(datatype, pyarrow.string())
    if lists == "tensor":
        flat = pyarrow.array(numpy.array(values, KINDS[datatype]).ravel())
        storage = pyarrow.FixedSizeListArray.from_arrays(flat, int(numpy.prod(dimensions)))
        return pyarrow.ExtensionArray.from_storage(
            pyarrow.fixed_shape_tensor(flat.type, dimensions), storage
        )
    for size in reversed(dimensions):
        kinds = {
            "list": pyarrow.list_(kind),
            "large": pyarrow.large_list(kind),
            "fixed": pyarrow.list_(kind, size),
        }
        kind = kinds[lists]
    if datatype == "FP16":
        values = numpy.array(values, KINDS[datatype]).tolist()
    return pyarrow.array(values, kind)


# Any: JSON
def file_of(
    form: str, values: list[Any], datatype: str, rank: int
) -> tuple[bytes, tuple[str, ...]]:
    """Return a file with records, as other libraries write it, and the columns with their
    values."""
    if form == "jsonl":
        return b"".join(orjson.dumps({"x": one}) + b"\n" for one in values), ("x",)
    if form == "csv":
        rows = values if rank == 2 else [[one] for one in values]
        names = [f"x{at}" for at in range(len(rows[0]))]
        text = io.StringIO()
        shown = [
            [str(cell).lower() if isinstance(cell, bool) else cell for cell in row] for row in rows
        ]
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([names, *shown])
        return text.getvalue().encode(), tuple(names)
    table = pyarrow.table({"x": column_of(values, datatype, DIMENSIONS[rank], FORMS[form].lists)})
    out = io.BytesIO()
    if form == "tensor":
        with pyarrow.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
    else:
        parquet.write_table(table, out)
    return out.getvalue(), ("x",)


def records_in(form: str, content: bytes, columns: tuple[str, ...]) -> Block:
    """Read a file as a Pod does."""
    with_columns = FORMS[form].record_format.abilities.with_columns
    assert with_columns is not None
    reader = with_columns(ColumnSelection(fed=columns, takes_any=True))
    file = MemoryFile(f"x{reader.suffixes[0] if reader.suffixes else ''}", content)
    (piece,) = reader.plan(file, chunk_bytes=1 << 20, limits=Limits())
    (block,) = reader.read(
        file, Chunk(0, 0, piece.start, piece.end, 0, piece.records), limits=Limits()
    )
    return block


def stored(form: str, batch: Batch, results: Results, kind: pyarrow.DataType) -> bytes:
    """Write results as a Pod does."""
    out = io.BytesIO()
    schema = result_schema(
        key=None, copied=(), predicted=kind, types={}, is_flat=False, field=""
    ).arrow
    writer = FORMS[form].record_format.writer(
        out, io.BytesIO(), schema=schema if FORMS[form].is_table else None
    )
    writer.write(batch, results)
    writer.close()
    return out.getvalue()


def predictions_in(form: str, content: bytes) -> list[Any]:  # Any: JSON
    """Read results as other libraries do."""
    if form == "jsonl":
        return [orjson.loads(line)["prediction"] for line in content.splitlines()]
    if form == "csv":
        return [
            orjson.loads(row["prediction"]) for row in csv.DictReader(io.StringIO(content.decode()))
        ]
    source = pyarrow.BufferReader(content)
    table = (
        pyarrow.ipc.open_file(source).read_all() if form == "tensor" else parquet.read_table(source)
    )
    found: list[Any] = table.column("prediction").to_pylist()  # Any: JSON
    return found


def sent_values(form: str, datatype: str, rank: int) -> list[Any]:  # Any: JSON
    """Return the values of five records, or of one if the tensor has no dimension for records."""
    values = values_of(datatype, rank, records=5 if rank else 1)
    if form != "csv":
        return values
    rows = values if rank == 2 else [values]  # an empty cell is null
    rows = [["-" if cell == "" else cell for cell in row] for row in rows]
    return rows if rank == 2 else rows[0]


def table_text() -> str:
    """Return what the page shows."""
    reasons: list[str] = []
    lines = [
        "| datatype | "
        + " | ".join(f"{protocol}: {name}" for protocol, name in JUDGES.values())
        + " |",
        "| --- |" + " --- |" * len(JUDGES),
    ]
    for datatype in ALL_DATATYPES:
        shown = [_shown(judge, "jsonl", datatype, reasons) for judge in JUDGES]
        lines.append(f"| {datatype} | {' | '.join(shown)} |")
    lines += ["", "| format | ranks | not of |", "| --- | --- | --- |"]
    for form, one in FORMS.items():
        without = [kind for kind in DATATYPES if not ranks_of("kserve-grpc", form, kind)]
        reason = _note(why_not("kserve-grpc", form, without[0], 2), reasons) if without else ""
        ranks = _shown("kserve-grpc", form, "INT8", reasons)
        lines.append(f"| {one.title} | {ranks} | {', '.join(without)}{reason} |")
    lines += ["", *(f"{at}. {text[0].upper()}{text[1:]}." for at, text in enumerate(reasons, 1))]
    return "\n".join(lines) + "\n"


def _shown(judge: str, form: str, datatype: str, reasons: list[str]) -> str:
    ranks = ranks_of(judge, form, datatype)
    why = dict.fromkeys(
        why_not(judge, form, datatype, rank) for rank in DIMENSIONS if rank not in ranks
    )
    return (_range(ranks) or "–") + "".join(_note(text, reasons) for text in why)


def _range(ranks: list[int]) -> str:
    return f"{ranks[0]} to {ranks[-1]}" if ranks else ""


def _note(text: str, reasons: list[str]) -> str:
    if text not in reasons:
        reasons.append(text)
    return f" ({reasons.index(text) + 1})"


_BEGIN, _END = "<!-- table -->\n\n", "\n<!-- end -->"


def page_with(page: str, table: str) -> str:
    """Return the page with the table in its place."""
    head, _, rest = page.partition(_BEGIN)
    return f"{head}{_BEGIN}{table}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), table_text()))
