"""Memory depends on the limits, not on the input: 200,000 rows need at most 1.2 times the memory of 2,000.

The peaks are the kernel's figure for the runner's process (VmHWM); the servers run in a process of their own.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.runner.pods import REPOSITORY, Ended, Machine

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
    contract = {"jobId": "uid", "jobName": "inf-rows", "kserve": kserve, "parameters": {"rows": str(rows)}}
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
        assert (ended.code, ended.message) == (0, f"{rows} of {rows} records predicted"), ended.stderr
        peaks[rows] = peak_of(ended)
    assert 10 < peaks[FEW] < 200
    assert peaks[MANY] <= 1.2 * peaks[FEW], peaks
