"""Runs that use the example data handler and a real PostgreSQL: what is stored, and the error
messages if nothing is."""

from typing import Final

import pytest

from tests.integration.data_handler.containers import (
    TOKEN,
    Database,
    Prediction,
    data_handler,
    free_port,
    probe_succeeds,
)
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel

pytestmark = pytest.mark.thorough

FAILURES: Final = {"input": (3, "InputFailed"), "output": (5, "OutputFailed")}
"""The exit code and reason of a run that fails on this side."""


async def test_the_predictions_of_150_irises_are_in_the_table_with_their_job_and_pod(
    run: Machine, database: Database, irises: list[list[float]]
) -> None:
    ended = await run.process()
    assert (ended.code, ended.message) == (0, "150 of 150 records predicted"), ended.stderr
    job = run.contract["jobId"]
    assert len(irises) == 150
    assert database.predictions(job) == [
        Prediction(job, "pod-1", i, sum(row)) for i, row in enumerate(irises)
    ]


async def test_skip_and_limit_select_rows_of_the_table(
    run: Machine, database: Database, irises: list[list[float]]
) -> None:
    run.contract["parameters"] |= {"skip": "20", "limit": "7"}
    ended = await run.pod()
    assert ended.message == "7 of 7 records predicted"
    assert [row.value for row in database.predictions(run.contract["jobId"])] == [
        sum(row) for row in irises[20:27]
    ]


async def test_a_wrong_token_is_reported_with_the_side_that_uses_it(
    run: Machine, database: Database
) -> None:
    run.endpoint("output", {"token": "another-token"})
    ended = await run.process()
    assert (ended.code, ended.result.reason) == FAILURES["output"]
    assert "/compute/sklearnoutput returned 401 with a body of" in ended.message
    run.endpoint("input", {"token": "another-token"})
    ended = await run.process()
    assert (ended.code, ended.result.reason) == FAILURES["input"]
    assert "/compute/sklearninput returned 401 with a body of" in ended.message
    assert "another-token" not in ended.message + ended.stdout + ended.stderr
    assert database.predictions(run.contract["jobId"]) == []


@pytest.mark.parametrize(
    "table",
    ["irises", "private_table", 'iris"; drop table iris; --'],
    ids=["unknown", "forbidden", "injected"],
)
@pytest.mark.parametrize("side", FAILURES)
async def test_an_inaccessible_table_is_reported_without_the_handlers_text(
    run: Machine, database: Database, side: str, table: str
) -> None:
    database.run("create table if not exists private_table (like iris_predictions including all)")
    run.contract["parameters"][f"{side}_table_name"] = table
    ended = await run.process()
    assert (ended.code, ended.result.reason) == FAILURES[side]
    assert f"/compute/sklearn{side} returned 400 with a body of" in ended.message
    assert table not in ended.message
    assert database.run("select count(*) from iris") == [["150"]]


@pytest.mark.parametrize("side", FAILURES)
async def test_a_traceback_with_status_200_is_a_failure(
    run: Machine, database: Database, side: str
) -> None:
    run.contract["parameters"]["fail"] = side
    ended = await run.process()
    assert (ended.code, ended.result.reason) == FAILURES[side]
    assert "Traceback" not in ended.message
    assert database.predictions(run.contract["jobId"]) == []


async def test_if_one_prediction_is_rejected_none_is_stored(
    run: Machine, database: Database, model: CountingModel
) -> None:
    # A constraint rejects the last record; the records before it must not be stored either.
    database.run(
        "drop table if exists strict_predictions;"
        "create table strict_predictions (like iris_predictions including all, check (counter < 149));"
        " grant select, insert, update on strict_predictions to data_handler"
    )
    run.contract["parameters"]["output_table_name"] = "strict_predictions"
    await run.failure(5, "/compute/sklearnoutput returned 500")
    assert database.run("select count(*) from strict_predictions") == [["0"]]


async def test_an_unreachable_database_is_reported_and_makes_the_handler_unready(
    run: Machine, handler: str
) -> None:
    assert probe_succeeds(handler, probe="readyz")
    with data_handler(database_port=free_port()) as without:
        assert probe_succeeds(without, probe="healthz")
        assert not probe_succeeds(without, probe="readyz")
        run.endpoint("input", {"server-url": without, "token": TOKEN})
        ended = await run.pod()
    assert ended.code == 3
    assert "returned 503 with a body of" in ended.message
