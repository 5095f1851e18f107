"""`errorThreshold` and `canaryRecords` with the real program: which records are sent, how it ends
and what is left."""

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
    file.write_rows([index, 0.5] for index in range(COUNT))


async def test_more_errors_than_the_threshold_allows_end_the_run_for_good(
    file: Machine, model: CountingModel
) -> None:
    model.reject(range(500, 520))
    file.contract["errorThreshold"] = "1%"
    ended = await file.process(**SMALL, INFERRUN_CONCURRENCY="1")
    assert (ended.code, ended.result.reason, ended.result.retryable) == (
        4,
        Reason.ERROR_THRESHOLD_EXCEEDED,
        False,
    )
    assert (
        "11 of 1000 records failed, more than errorThreshold 1% (10) allows; the first error: "
        in ended.message
    )
    assert not (file.run_folder / "manifest.json").exists()


async def test_as_many_errors_as_the_threshold_allows_are_committed(
    file: Machine, model: CountingModel
) -> None:
    model.reject(range(500, 510))
    file.contract["errorThreshold"] = "1%"
    ended = await file.process(**SMALL)
    assert (ended.code, ended.message) == (
        0,
        "990 of 1000 records predicted; 10 failed, with their errors in the output",
    )
    manifest = file.manifest
    assert manifest["records"] == {"total": COUNT, "completed": 990, "failed": 10}
    assert sum(part["records"] for part in manifest["parts"]) == COUNT
    assert sum(part.get("failed", 0) for part in manifest["parts"]) == 10
    lines = [
        line
        for path in (file.run_folder / "errors").iterdir()
        for line in path.read_bytes().splitlines()
    ]
    assert sorted(orjson.loads(line)["index"] for line in lines) == list(range(500, 510))


async def test_a_canary_that_fails_keeps_the_other_records_from_being_sent(
    file: Machine, model: CountingModel
) -> None:
    model.reject([*range(3), *range(20, 24)])
    file.contract |= {"errorThreshold": "5%", "canaryRecords": 120}
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.retryable) == (4, False)
    assert (
        "7 of 120 canary records failed, more than errorThreshold 5% (6) allows, so the other 880 "
        in ended.message
    )
    assert set(model.rows) <= set(range(120))


async def test_a_canary_that_passes_costs_no_record_twice(
    file: Machine, model: CountingModel
) -> None:
    model.reject([5])
    file.contract |= {"errorThreshold": "1%", "canaryRecords": 120}
    ended = await file.process(**SMALL)
    assert (ended.code, ended.result.records.failed) == (0, 1), ended.message
    assert set(model.rows) == set(range(COUNT)) - {5}
    assert set(model.rows.values()) == {1}


async def test_no_record_behind_the_canary_is_sent_before_its_last_result(
    file: Machine, model: CountingModel
) -> None:
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
