"""`errorThreshold` and `canaryRecords` with the real program: which records are sent, how it ends and what is left."""

import json
from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from inferrun.reasons import Reason
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.servers import CountingModel

COUNT = 1000
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    text = "".join(f"[{index}, 0.5]\n" for index in range(COUNT))
    (file.input / "data" / "rows.jsonl").write_text(text)


def reject(model: CountingModel, bad: Iterable[int]) -> None:
    """Reject every request that contains one of these records."""
    rejected = set(bad)

    async def hook(request: web.Request) -> web.StreamResponse | None:
        tensor = orjson.loads(await request.read())["inputs"][0]
        is_bad = rejected & set(tensor["data"][:: tensor["shape"][1]])
        return web.Response(status=422) if is_bad else None

    model.before = hook


def folder_of(machine: Machine) -> Path:
    return machine.output / "results" / str(machine.contract["jobName"])


async def test_more_errors_than_the_threshold_allows_end_the_run_for_good(file: Machine, model: CountingModel) -> None:
    reject(model, range(500, 520))
    file.contract["errorThreshold"] = "1%"
    ended = await file.process(**SMALL, INFERRUN_CONCURRENCY="1")
    assert (ended.code, ended.result.reason, ended.result.retryable) == (4, Reason.ERROR_THRESHOLD_EXCEEDED, False)
    assert "11 of 1000 records failed, more than errorThreshold 1% (10) allows; the first error: " in ended.message
    assert not (folder_of(file) / "manifest.json").exists()


async def test_as_many_errors_as_the_threshold_allows_are_committed(file: Machine, model: CountingModel) -> None:
    reject(model, range(500, 510))
    file.contract["errorThreshold"] = "1%"
    ended = await file.process(**SMALL)
    assert (ended.code, ended.message) == (
        0,
        "990 of 1000 records predicted; 10 failed, with their errors in the output",
    )
    manifest = json.loads((folder_of(file) / "manifest.json").read_text())
    assert manifest["records"] == {"total": COUNT, "completed": 990, "failed": 10}
    assert sum(part["records"] for part in manifest["parts"]) == COUNT
    assert sum(part.get("failed", 0) for part in manifest["parts"]) == 10
    lines = [line for path in (folder_of(file) / "errors").iterdir() for line in path.read_bytes().splitlines()]
    assert sorted(orjson.loads(line)["index"] for line in lines) == list(range(500, 510))


async def test_a_threshold_of_zero_allows_no_error(file: Machine, model: CountingModel) -> None:
    reject(model, [3])
    file.contract["errorThreshold"] = "0"
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.reason) == (4, Reason.ERROR_THRESHOLD_EXCEEDED)


async def test_a_canary_that_fails_keeps_the_other_records_from_being_sent(file: Machine, model: CountingModel) -> None:
    reject(model, [*range(3), *range(20, 24)])
    file.contract |= {"errorThreshold": "5%", "canaryRecords": 120}
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.retryable) == (4, False)
    assert "7 of 120 canary records failed, more than errorThreshold 5% (6) allows, so the other 880 " in ended.message
    assert set(model.rows) <= set(range(120))


async def test_a_canary_that_passes_costs_no_record_twice(file: Machine, model: CountingModel) -> None:
    reject(model, [5])
    file.contract |= {"errorThreshold": "1%", "canaryRecords": 120}
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.records.failed) == (0, 1), ended.message
    assert set(model.rows) == set(range(COUNT)) - {5}
    assert set(model.rows.values()) == {1}


async def test_no_record_behind_the_canary_is_sent_before_its_last_result(file: Machine, model: CountingModel) -> None:
    """The other records wait although there are free slots."""
    sent_early: list[float] = []

    async def hook(request: web.Request) -> web.StreamResponse | None:
        first = orjson.loads(await request.read())["inputs"][0]["data"][0]
        if first == 0:  # the last result of the canary is the first record's
            await until(lambda: len(model.rows) >= 70)
        if first >= 120 and len(set(model.rows) & set(range(120))) < 120:
            sent_early.append(first)
        return None

    model.before = hook
    file.contract |= {"canaryRecords": 120}
    assert (await file.process(**SMALL, INFERRUN_CONCURRENCY="8")).code == 0
    assert sent_early == []


async def test_a_canary_without_a_threshold_fails_only_if_all_of_it_fails(file: Machine, model: CountingModel) -> None:
    reject(model, range(10))
    file.contract["canaryRecords"] = 10
    ended = await file.process(**SMALL)
    assert (ended.code, "all 10 canary records failed, so the other 990 were not sent" in ended.message) == (4, True)
    reject(model, range(9))
    file.contract["jobName"] = "inf-other"
    assert (await file.process(**SMALL)).code == 0
