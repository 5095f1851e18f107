"""Runs whose model server ends, as a process, whenever it receives one of their records.

The search itself is tested in simulated time, with more servers than these.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from inferrun.runner_report import ProgressLine, latest_line
from tests.integration.runner.mortal_server import MortalServer, mortal_server
from tests.integration.runner.pods import Ended, Machine

pytestmark = pytest.mark.thorough

COUNT = 400
SETTINGS = {
    "INFERRUN_RETRY_SECONDS": "20",
    "INFERRUN_BATCH_ROWS": "50",
    "INFERRUN_CONCURRENCY": "4",
    "INFERRUN_CHUNK_BYTES": "1024",
}


def prepared(machine: Machine, url: str, protocol: str = "v2", count: int = COUNT) -> Machine:
    """A run of so many records with this server."""
    machine.write_rows([index, 0.5] for index in range(count))
    machine.contract["kserve"] = {"modelName": "sum", "modelUrl": url, "protocolVersion": protocol}
    return machine


def assert_only_failed(
    machine: Machine, ended: Ended, bad: Collection[int], *, count: int = COUNT
) -> None:
    """Every record has its own prediction, except for the bad ones, which have an error."""
    failed = f"; {len(bad)} failed, with their errors in the output" if bad else ""
    assert (ended.code, ended.message) == (
        0,
        f"{count - len(bad)} of {count} records predicted{failed}",
    )
    errors = machine.errors if bad else []
    assert [one["index"] for one in errors] == sorted(bad)
    for one in errors:
        assert one["error"]["code"] == "no_response"
        assert "each time the record is sent, while others are answered" in one["error"]["message"]
    predictions = {one["index"]: one.get("prediction") for one in machine.results}
    assert predictions == {index: None if index in bad else index + 0.5 for index in range(count)}


@asynccontextmanager
async def killing(server: MortalServer) -> AsyncIterator[None]:
    """Kill the process of the server from outside, again and again."""

    async def kill() -> None:
        while True:
            await asyncio.sleep(1.5)
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(kill())
        yield
        task.cancel()


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
async def test_a_record_that_ends_the_server_costs_one_record(
    file: Machine, tmp_path: Path, protocol: str
) -> None:
    async with mortal_server(tmp_path / "journal", poison=[217], protocol=protocol) as server:
        ended = await prepared(file, server.url, protocol).pod(**SETTINGS)
        deaths = server.deaths
    assert_only_failed(file, ended, [217])
    (error,) = file.errors
    # a request may end before the server has noted it
    assert len(deaths) <= error["error"]["attempts"] <= 12


async def test_the_search_for_the_record_is_part_of_the_progress(
    file: Machine, tmp_path: Path
) -> None:
    async with mortal_server(tmp_path / "journal", poison=[217]) as server:
        ended = await prepared(file, server.url).process(**SETTINGS)
    assert_only_failed(file, ended, [217])
    notes = [
        found.note
        for line in ended.stdout.splitlines()
        if (found := latest_line(ProgressLine, line))
    ]
    search = "requests with records 200 to 249 get no response, so one of them is searched for, and the others wait"
    assert search in notes
    assert notes[-1] == ""


async def test_a_server_that_ends_at_any_time_costs_no_record(
    file: Machine, tmp_path: Path
) -> None:
    """It is killed from outside, again and again, while requests are in flight."""
    async with (
        mortal_server(tmp_path / "journal", poison=[], restart=0.3, seconds=0.05) as server,
        killing(server),
    ):
        ended = await prepared(file, server.url, count=1500).pod(
            **SETTINGS | {"INFERRUN_BATCH_ROWS": "10"}
        )
    assert_only_failed(file, ended, [], count=1500)


async def test_a_server_that_does_not_survive_large_requests_gets_smaller_ones(
    file: Machine, tmp_path: Path
) -> None:
    """As one that exceeds its memory limit."""
    async with mortal_server(tmp_path / "journal", poison=[], most=40) as server:
        ended = await prepared(file, server.url).pod(**SETTINGS)
        assert len(server.deaths) <= 40
    assert_only_failed(file, ended, [])


async def test_the_pods_of_a_run_find_such_records_together(file: Machine, tmp_path: Path) -> None:
    """Each Pod loses requests because of the others' records."""
    bad = [3, 190, 360]
    shared = SETTINGS | {
        "INFERRUN_SHARDS": "3",
        "INFERRUN_BATCH_ROWS": "10",
        "INFERRUN_CONCURRENCY": "2",
    }
    async with mortal_server(tmp_path / "journal", poison=bad, restart=0.1, seconds=0.01) as server:
        prepared(file, server.url)
        pods = [
            await file.start(environment=shared | {"JOB_COMPLETION_INDEX": str(index)})
            for index in range(3)
        ]
        ended = await asyncio.gather(*(pod.end() for pod in pods))
    assert [one.code for one in ended] == [0, 0, 0], [one.message for one in ended]
    assert_only_failed(file, ended[0], bad)
