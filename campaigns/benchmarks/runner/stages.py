"""`python -m campaigns.benchmarks.runner.stages`: what the stages of a run take by themselves,
without anything around them.

Reads and decodes lines, encodes a V2 request in JSON, decodes the response and writes the
predictions as JSON lines, each with the fastest general library (orjson) and without any check.
With `--blocks` the lines of a request are taken as one block of text, and not decoded at all: this
is the least that such a request can cost in Python. Sending is measured by the load generator.
Prints the CPU seconds of all requests, as JSON.
"""

import argparse
import json
import sys
import time
from itertools import chain, islice
from pathlib import Path

import orjson


def run(source: Path, sink: Path, *, rows: int) -> float:
    """Execute the stages for a file, and return the CPU seconds."""
    answer = _answer(rows)
    first, started = 0, time.process_time()
    with source.open("rb") as lines, sink.open("wb") as out:
        while records := [orjson.loads(line) for _, line in zip(range(rows), lines, strict=False)]:
            tensor = {"name": "input-0", "shape": [len(records), 4], "datatype": "FP32"}
            body = orjson.dumps(
                {"inputs": [{**tensor, "data": list(chain.from_iterable(records))}]}
            )
            assert body
            predictions = orjson.loads(answer)["outputs"][0]["data"][: len(records)]
            out.writelines(
                orjson.dumps({"index": index, "prediction": prediction}) + b"\n"
                for index, prediction in enumerate(predictions, first)
            )
            first += len(records)
    return time.process_time() - started


def run_blocks(source: Path, sink: Path, *, rows: int) -> float:
    """Execute the stages for a file, a block of lines at a time, and return the CPU seconds."""
    answer = _answer(rows)
    flat = bytes.maketrans(b"\n", b",")
    head, end = b'{"index":%d,"prediction":', b"}\n"
    first, started = 0, time.process_time()
    with source.open("rb") as lines, sink.open("wb") as out:
        while block := b"".join(islice(lines, rows)):
            count = block.count(b"\n")
            tensor = orjson.dumps({"name": "input-0", "shape": [count, 4], "datatype": "FP32"})
            body = b'{"inputs":[%b,"data":[%b]}]}' % (
                tensor[:-1],
                block[:-1].translate(flat, b"[]"),
            )
            assert body
            predictions = orjson.dumps(orjson.loads(answer)["outputs"][0]["data"][:count])[1:-1]
            text = head + predictions.replace(b",", end + head) + end
            out.write(text % tuple(range(first, first + count)))
            first += count
    return time.process_time() - started


def _answer(rows: int) -> bytes:
    return orjson.dumps(
        {"outputs": [{"name": "predict", "datatype": "INT64", "shape": [rows], "data": [1] * rows}]}
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("sink", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--blocks", action="store_true")
    given = parser.parse_args()
    execute = run_blocks if given.blocks else run
    sys.stdout.write(
        json.dumps({"cpu_seconds": execute(given.source, given.sink, rows=given.rows)}) + "\n"
    )
