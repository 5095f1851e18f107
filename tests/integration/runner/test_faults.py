"""Faults of the model server cost the time of the failed requests and do not stall the others."""

import time
from pathlib import Path

import orjson
import pytest

from tests.integration.runner.faults import faulty, generate_load
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel

ROWS, BATCH = 6000, 20
SETTINGS = {"INFERRUN_BATCH_ROWS": str(BATCH), "INFERRUN_RETRY_SECONDS": "60", "INFERRUN_CONCURRENCY": "4"}


def results(machine: Machine) -> list[dict[str, object]]:
    folder: Path = machine.output / "results" / str(machine.contract["jobName"]) / "predictions"
    return [orjson.loads(line) for part in sorted(folder.iterdir()) for line in part.read_bytes().splitlines()]


@pytest.mark.parametrize(("rate", "kind"), [(0.01, "503"), (0.1, "503"), (0.1, "reset")])
async def test_the_rate_under_faults_is_near_that_of_a_load_generator(
    file: Machine, model: CountingModel, rate: float, kind: str
) -> None:
    (file.input / "data" / "rows.jsonl").write_text("".join(f"[{index}, 0.5]\n" for index in range(ROWS)))
    tensor = {"name": "x", "shape": [BATCH, 2], "datatype": "FP32", "data": [0.5] * 2 * BATCH}
    body = orjson.dumps({"inputs": [tensor]})
    model.before = faulty(seconds=0.02, rate=rate, kind=kind)
    url = f"{model.url}/v2/models/sum/infer"
    best = await generate_load(url, body, requests=ROWS // BATCH, concurrency=4)
    model.before = faulty(seconds=0.02, rate=rate, kind=kind)
    started = time.monotonic()
    ended = await file.pod(**SETTINGS)
    taken = time.monotonic() - started
    assert ended.code == 0, ended.message
    assert results(file) == [{"index": index, "prediction": index + 0.5} for index in range(ROWS)]
    assert best / taken >= 0.6, f"the load generator took {best:.2f} s, the runner {taken:.2f} s"
