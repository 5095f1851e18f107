"""Memory depends on the limits, not on the input: 200,000 rows need at most 1.2 times the memory of
2,000.

The peaks are the kernel's figure for the runner's process (VmHWM); the servers run in a process of
their own.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.runner.pods import REPOSITORY, Ended, Machine
from tests.integration.runner.servers_process import WIDTH

pytestmark = pytest.mark.thorough

FEW, MANY = 2_000, 200_000


@pytest.fixture
async def servers() -> AsyncIterator[str]:
    """The address of a model server and a data handler in another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.runner.servers_process",
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdin
    yield (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
    process.stdin.close()
    await asyncio.wait_for(process.wait(), 30)


def machine_of(folder: Path, servers: str, *, label: str, rows: int) -> Machine:
    """A run of the given number of rows, with the label for input and output."""
    kserve = {"modelName": "echo", "modelUrl": servers}
    contract = {
        "jobId": "uid",
        "jobName": "inf-rows",
        "kserve": kserve,
        "parameters": {"rows": str(rows)},
    }
    machine = Machine(folder, contract=contract)
    for side in ("input", "output"):
        machine.endpoint(side, {"server-url": servers})
        api = {"path": f"/compute/{side}", "endpointRef": {"name": "servers"}}
        path = "rows.jsonl" if side == "input" else "results"
        machine.contract[side] = {"krateo": {"api": api}} if label == "krateo" else {
            "file": {"claimName": "claim", "path": path}
        }  # fmt: skip
    with (machine.input / "rows.jsonl").open("w") as lines:
        lines.writelines("[5.1, 3.5, 1.4, 0.2]\n" for _ in range(rows))
    return machine


def peak_of(ended: Ended) -> float:
    """The peak memory in MiB that the process logged."""
    last = json.loads(ended.stderr.splitlines()[-1])
    return float(last["peak_memory_mib"])


@pytest.mark.parametrize("label", ["file", "krateo"])
async def test_a_hundred_times_the_rows_need_at_most_a_fifth_more_memory(
    tmp_path: Path, servers: str, label: str
) -> None:
    peaks: dict[int, float] = {}
    for rows in (FEW, MANY):
        ended = await machine_of(tmp_path / str(rows), servers, label=label, rows=rows).process()
        assert (ended.code, ended.message) == (0, f"{rows} of {rows} records predicted"), (
            ended.stderr
        )
        peaks[rows] = peak_of(ended)
    assert 10 < peaks[FEW] < 200
    assert peaks[MANY] <= 1.2 * peaks[FEW], peaks


@pytest.mark.parametrize(("batch", "concurrency"), [(500, 2), (500, 8), (4000, 4)])
async def test_the_peak_follows_the_documented_formula_with_wide_responses(
    tmp_path: Path, servers: str, batch: int, concurrency: int
) -> None:
    rows, window = 20_000, 8
    machine = machine_of(tmp_path / "wide", servers, label="file", rows=rows)
    machine.contract["kserve"]["modelName"] = "wide"
    ended = await machine.process(
        INFERRUN_BATCH_ROWS=str(batch),
        INFERRUN_WINDOW_BYTES=str(window << 20),
        INFERRUN_CONCURRENCY=str(concurrency),
        INFERRUN_RECORD_BYTES=str(1 << 20),
    )
    assert ended.code == 0, ended.stderr
    response = batch * WIDTH * len("0.123456,") / (1 << 20)
    assert peak_of(ended) <= 70 + 1.5 * window + (12 + 3 * concurrency) * response + 3 * 1


async def test_a_line_over_the_limit_does_not_fill_the_memory(tmp_path: Path, servers: str) -> None:
    machine = machine_of(tmp_path / "line", servers, label="file", rows=2)
    with (machine.input / "rows.jsonl").open("ab") as out:
        for _ in range(300):
            out.write(b"1," * (1 << 19))
    ended = await machine.process(INFERRUN_RECORD_BYTES=str(1 << 20))
    assert (ended.code, ended.message.partition(";")[0]) == (
        3,
        "rows.jsonl line 3: the record is longer than 1048576 bytes",
    ), ended.stderr
    assert peak_of(ended) < 100


async def test_an_endless_handler_response_is_cut_off_at_the_limit(
    tmp_path: Path, servers: str
) -> None:
    machine = machine_of(tmp_path / "rows", servers, label="krateo", rows=2)
    machine.contract["input"]["krateo"]["api"]["path"] = "/compute/endless"
    ended = await machine.process(INFERRUN_SPOOL_BYTES=str(4 << 20))
    assert ended.code == 3
    assert "returned rows of more than 4194304 bytes" in ended.message
    assert peak_of(ended) < 100
    assert list((machine.folder / "tmp").iterdir()) == []
