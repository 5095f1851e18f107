"""`python -m benchmarks.runner.stages`: what the stages of a run take by themselves, without anything around them.

Reads and decodes lines, encodes a V2 request in JSON, decodes the response and writes the predictions as JSON lines, each with the
fastest general library (orjson) and without any check. Sending is measured by the load generator. Prints the CPU seconds of all
requests, as JSON.
"""

import argparse
import json
import sys
import time
from itertools import chain
from pathlib import Path

import orjson


def run(source: Path, sink: Path, *, rows: int) -> float:
    """Execute the stages for a file, and return the CPU seconds."""
    answer = orjson.dumps({"outputs": [{"name": "predict", "datatype": "INT64", "shape": [rows], "data": [1] * rows}]})
    first, started = 0, time.process_time()
    with source.open("rb") as lines, sink.open("wb") as out:
        while records := [orjson.loads(line) for _, line in zip(range(rows), lines, strict=False)]:
            tensor = {"name": "input-0", "shape": [len(records), 4], "datatype": "FP32"}
            body = orjson.dumps({"inputs": [{**tensor, "data": list(chain.from_iterable(records))}]})
            assert body
            predictions = orjson.loads(answer)["outputs"][0]["data"][: len(records)]
            out.writelines(
                orjson.dumps({"index": index, "prediction": prediction}) + b"\n"
                for index, prediction in enumerate(predictions, first)
            )
            first += len(records)
    return time.process_time() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("sink", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    given = parser.parse_args()
    sys.stdout.write(json.dumps({"cpu_seconds": run(given.source, given.sink, rows=given.rows)}) + "\n")
