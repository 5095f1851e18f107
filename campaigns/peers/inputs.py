"""Writes the inputs, each in the forms that the clients read."""

import json
from collections.abc import Callable
from pathlib import Path

from campaigns.peers.records import COLUMNS, chat_of, text_of, values_of
from campaigns.peers.works import Form


def write_input(form: Form, records: int, folder: Path, *, variant: str = "") -> Path:
    """Write the input, unless it exists. Variants of `rows`: `named` has the list as the member x of
    an object, for clients that read only objects, and `requests` is a request of V2 per line."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "parquet" if form in ("columns", "texts") else "jsonl"
    path = folder / f"{form}-{variant}{records}.{suffix}"
    if not path.exists():
        if suffix == "parquet":
            _write_parquet(form, records, path)
        else:
            _write_lines(_LINES[variant or form], records, path)
    return path


def _list_of(number: int) -> object:
    return values_of(number)


def _named_list_of(number: int) -> object:
    return {"x": values_of(number)}


def _object_of(number: int) -> object:
    return dict(zip(COLUMNS, values_of(number), strict=True))


def _request_of(number: int) -> object:
    tensor = {"name": "input-0", "datatype": "FP32", "shape": [1, 4], "data": values_of(number)}
    return {"inputs": [tensor]}


def _batch_line_of(number: int) -> object:
    target = {"method": "POST", "url": "/v1/chat/completions"}
    return {"custom_id": f"request-{number}", **target, "body": chat_of(number)}


_LINES: dict[str, Callable[[int], object]] = {
    "rows": _list_of,
    "named": _named_list_of,
    "requests": _request_of,
    "objects": _object_of,
    "batch": _batch_line_of,
}


def _write_lines(line_of: Callable[[int], object], records: int, path: Path) -> None:
    with path.open("w") as out:
        out.writelines(f"{json.dumps(line_of(number))}\n" for number in range(records))


def _write_parquet(form: Form, records: int, path: Path) -> None:
    import pyarrow  # noqa: PLC0415  tests of the report do not need it
    from pyarrow import parquet  # noqa: PLC0415

    if form == "texts":
        texts = [text_of(number) for number in range(records)]
        parquet.write_table(pyarrow.table({"id": range(records), "text": texts}), path)
        return
    rows = zip(*(values_of(number) for number in range(records)), strict=True)
    columns = [pyarrow.array(values, pyarrow.float32()) for values in rows]
    parquet.write_table(pyarrow.table(columns, names=COLUMNS), path, row_group_size=131_072)
