"""One table in every format with columns."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

import pyarrow
from pyarrow import ipc, orc, parquet

Table = Mapping[str, Sequence[object]]

FORMATS = ("csv", "parquet", "arrow", "orc", "jsonl")


def content_of(table: Table, *, name: str) -> bytes:
    """The file of a format that contains the table."""
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    if name == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if name == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(table))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    columns = pyarrow.table(dict(table))
    out = io.BytesIO()
    if name == "parquet":
        parquet.write_table(columns, out, row_group_size=7)
        return out.getvalue()
    if name == "orc":
        orc.write_table(columns, out)
        return out.getvalue()
    with ipc.new_file(out, columns.schema) as writer_of_batches:
        writer_of_batches.write_table(columns, max_chunksize=7)
    return out.getvalue()
