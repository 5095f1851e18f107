"""Runs whose model server ends, as a process, whenever it receives one of their records.

The search itself is tested in simulated time, with more servers than these.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

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
    (machine.input / "data" / "rows.jsonl").write_text("".join(f"[{index}, 0.5]\n" for index in range(count)))
    machine.contract["kserve"] = {"modelName": "sum", "modelUrl": url, "protocolVersion": protocol}
    return machine


def lines_of(machine: Machine, folder: str) -> list[dict[str, Any]]:  # Any: JSON
    parts = sorted((machine.output / "results" / str(machine.contract["jobName"]) / folder).iterdir())
    return [orjson.loads(line) for part in parts for line in part.read_bytes().splitlines()]


def assert_only_failed(machine: Machine, ended: Ended, bad: Collection[int], *, count: int = COUNT) -> None:
    """Every record has its own prediction, except for the bad ones, which have an error."""
    failed = f"; {len(bad)} failed, with their errors in the output" if bad else ""
    assert (ended.code, ended.message) == (0, f"{count - len(bad)} of {count} records predicted{failed}")
    errors = lines_of(machine, "errors") if bad else []
    assert [one["index"] for one in errors] == sorted(bad)
    for one in errors:
        assert one["error"]["code"] == "no_response"
        assert "each time the record is sent, while others are answered" in one["error"]["message"]
    predictions = {one["index"]: one.get("prediction") for one in lines_of(machine, "predictions")}
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


@asynccontextmanager
async def proxy(url: str, *, status: int) -> AsyncIterator[str]:
    """A proxy that answers with this status if the server gives no response."""

    async def forward(request: web.Request) -> web.Response:
        try:
            async with session.request(request.method, f"{url}{request.path}", data=await request.read()) as found:
                return web.Response(status=found.status, body=await found.read())
        except aiohttp.ClientError:
            return web.Response(status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    async with aiohttp.ClientSession() as session:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("protocol", ["v2", "v1", "grpc-v2"])
async def test_a_record_that_ends_the_server_costs_one_record(file: Machine, tmp_path: Path, protocol: str) -> None:
    async with mortal_server(tmp_path / "journal", poison=[217], protocol=protocol) as server:
        ended = await prepared(file, server.url, protocol).pod(**SETTINGS)
        deaths = server.deaths
    assert_only_failed(file, ended, [217])
    (error,) = lines_of(file, "errors")
    assert error["error"]["attempts"] == len(deaths)
    assert len(deaths) <= 12


async def test_the_search_for_the_record_is_part_of_the_progress(file: Machine, tmp_path: Path) -> None:
    async with mortal_server(tmp_path / "journal", poison=[217]) as server:
        ended = await prepared(file, server.url).process(**SETTINGS)
    assert_only_failed(file, ended, [217])
    notes = [found.note for line in ended.stdout.splitlines() if (found := latest_line(ProgressLine, line))]
    search = "requests with records 200 to 249 get no response, so one of them is searched for, and the others wait"
    assert search in notes
    assert notes[-1] == ""


async def test_a_server_that_ends_at_any_time_costs_no_record(file: Machine, tmp_path: Path) -> None:
    """It is killed from outside, again and again, while requests are in flight."""
    async with mortal_server(tmp_path / "journal", poison=[], restart=0.3, seconds=0.05) as server, killing(server):
        ended = await prepared(file, server.url, count=1500).pod(**SETTINGS | {"INFERRUN_BATCH_ROWS": "10"})
    assert_only_failed(file, ended, [], count=1500)


@pytest.mark.parametrize("status", [502, 503])
async def test_a_proxy_may_stand_before_the_server(file: Machine, tmp_path: Path, status: int) -> None:
    """It answers for the server that has ended, and the connection to it is not lost."""
    async with mortal_server(tmp_path / "journal", poison=[217]) as server, proxy(server.url, status=status) as url:
        ended = await prepared(file, url).pod(**SETTINGS | {"INFERRUN_RETRY_SECONDS": "4"})
    assert_only_failed(file, ended, [217])


async def test_such_a_record_counts_as_failed(file: Machine, tmp_path: Path) -> None:
    file.contract |= {"errorThreshold": "0", "canaryRecords": 100}
    async with mortal_server(tmp_path / "journal", poison=[60]) as server:
        ended = await prepared(file, server.url).pod(**SETTINGS)
    assert (ended.code, ended.result.reason, ended.result.retryable) == (4, "ErrorThresholdExceeded", False)
    assert "of 100 canary records failed" in ended.message


async def test_a_server_that_does_not_survive_large_requests_gets_smaller_ones(file: Machine, tmp_path: Path) -> None:
    """As one that exceeds its memory limit."""
    async with mortal_server(tmp_path / "journal", poison=[], most=40) as server:
        ended = await prepared(file, server.url).pod(**SETTINGS)
        assert len(server.deaths) <= 40
    assert_only_failed(file, ended, [])


async def test_two_runs_that_share_the_server_blame_only_their_own_records(file: Machine, tmp_path: Path) -> None:
    """Each loses requests because of the records of the other one, whenever the server is back."""
    other = Machine(tmp_path / "other", contract=dict(file.contract))
    (other.input / "data").mkdir()
    async with mortal_server(tmp_path / "journal", poison=[30, 1041], restart=0.1, seconds=0.02) as server:
        prepared(file, server.url, count=80)
        prepared(other, server.url, count=80)
        (other.input / "data" / "rows.jsonl").write_text("".join(f"[{1000 + at}, 0.5]\n" for at in range(80)))
        one_by_one = SETTINGS | {"INFERRUN_BATCH_ROWS": "1"}
        found = await asyncio.gather(file.pod(**one_by_one), other.pod(**one_by_one))
    assert [ended.code for ended in found] == [0, 0], [ended.message for ended in found]
    assert [one["index"] for machine in (file, other) for one in lines_of(machine, "errors")] == [30, 41]


async def test_the_pods_of_a_run_find_such_records_together(file: Machine, tmp_path: Path) -> None:
    """Each Pod loses requests because of the others' records."""
    bad = [3, 190, 360]
    shared = SETTINGS | {"INFERRUN_SHARDS": "3", "INFERRUN_BATCH_ROWS": "10", "INFERRUN_CONCURRENCY": "2"}
    async with mortal_server(tmp_path / "journal", poison=bad, restart=0.1, seconds=0.01) as server:
        prepared(file, server.url)
        pods = [await file.start(environment=shared | {"JOB_COMPLETION_INDEX": str(index)}) for index in range(3)]
        ended = await asyncio.gather(*(pod.end() for pod in pods))
    assert [one.code for one in ended] == [0, 0, 0], [one.message for one in ended]
    assert_only_failed(file, ended[0], bad)


async def test_a_request_to_a_language_model_that_ends_it_costs_one_record(file: Machine, tmp_path: Path) -> None:
    def line(index: int) -> str:
        body = {"model": "sum", "messages": [{"role": "user", "content": str(index)}]}
        request = {"custom_id": f"key-{index}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        return f"{orjson.dumps(request).decode()}\n"

    async with mortal_server(tmp_path / "journal", poison=[33], protocol="openai", seconds=0.02) as server:
        prepared(file, server.url, "openai")
        for side in ("input", "output"):
            file.contract[side]["file"]["format"] = "openai"
        (file.input / "data" / "rows.jsonl").write_text("".join(map(line, range(60))))
        ended = await file.pod(**SETTINGS)
    assert (ended.code, ended.message.split(";")[0]) == (0, "59 of 60 records predicted"), ended.message
    (error,) = lines_of(file, "errors")
    assert (error["custom_id"], error["error"]["code"]) == ("key-33", "no_response")
