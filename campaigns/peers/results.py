"""Reads what clients have written, each in its own form, as pairs of a record's number and its
result."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from pyarrow import parquet

from campaigns.peers.records import number_of

Line = Mapping[str, Any]  # Any: JSON of programs of others


def read_results(folder: Path) -> Iterator[tuple[int, object]]:
    """All results below the folder, from JSON lines and Parquet files. The number of a line that
    belongs to no record is -1; a line that says that its record has failed is left out."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".jsonl"):
            with path.open("rb") as lines:
                for line in lines:
                    yield from results_of(_parsed(line))
        elif path.suffix == ".parquet":
            for batch in parquet.ParquetFile(path).iter_batches():
                for row in batch.to_pylist():
                    yield from results_of(row)


def _parsed(line: bytes) -> Line:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, Mapping) else {}


def results_of(line: Line) -> Iterator[tuple[int, object]]:
    """The number and the result of one line or row, unless its record has failed."""
    if line.get("error"):
        return
    try:
        yield _result_of(line)
    except (LookupError, TypeError, ValueError):
        yield -1, None


def _result_of(line: Line) -> tuple[int, object]:
    if "custom_id" in line and "response" in line:
        return int(str(line["custom_id"]).rpartition("-")[2]), _text_of(line["response"])
    if "answer" in line:
        return int(line["id"]), line["answer"]
    if "outputs" in line:
        return int(line["parameters"]["batch_index"]), line["outputs"][0]["data"][0]
    prediction = line["prediction"]
    if isinstance(prediction, Mapping):
        prediction = prediction.get("text")
    if "index" in line:
        return int(line["index"]), prediction
    values = line["x"] if "x" in line else [line[f"x{at}"] for at in range(4)]
    return number_of(*values[:3]), prediction


def _text_of(response: object) -> object:
    """The text of a chat completion: a body, its JSON, or a member with the body."""
    body = orjson.loads(response) if isinstance(response, str) else response
    if isinstance(body, Mapping) and "body" in body:
        body = body["body"]
    try:
        return body["choices"][0]["message"]["content"]  # type: ignore[index]  # checked by running
    except (KeyError, IndexError, TypeError):
        return None
