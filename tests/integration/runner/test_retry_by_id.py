"""`retryOf` after the input was corrected: predictions are taken over by ids, and only new and
failed records are sent."""

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tests.integration.runner.pods import Machine
from tests.integration.runner.postgres_server import postgres_server
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.test_retry_of import BAD, COUNT, SMALL

pytestmark = pytest.mark.thorough

FIXED = {3: 1003, 4: 1004}
"""New values of records that failed."""

KEPT = {index: float(index) for index in range(COUNT) if index not in BAD and index != 100}
"""The values of the records that are still in the input, with a prediction; 100 is deleted."""

CORRECTED = {
    **{index: float(index) for index in sorted(BAD - set(FIXED))},
    **dict(reversed(KEPT.items())),
    **FIXED,
    600: 600.0,
    200: 9000.0,  # changed, although it has a prediction
}
"""The values in the corrected input, in another order."""

EXPECTED = {**CORRECTED, 200: 200.0}
SENT = {*FIXED.values(), 600.0, *(BAD - set(FIXED))}


def write(machine: Machine, values: Mapping[int, float], *, form: str = "text") -> None:
    ids = {"text": "r{}", "number": "{}"}[form].format
    rows = [
        {"custom_id": ids(one) if form == "text" else one, "inputs": [value, 0.5]}
        for one, value in values.items()
    ]
    machine.write_rows(rows)


@pytest.fixture
async def corrected(file: Machine, model: CountingModel, request: pytest.FixtureRequest) -> Machine:
    """A run whose input was corrected after some of its records had failed; the next Pod is one of
    the run that retries it."""
    form = getattr(request, "param", "text")
    write(file, {index: float(index) for index in range(COUNT)}, form=form)
    model.reject(BAD)
    first = await file.success(**SMALL)
    assert first.result.records.failed == len(BAD)
    write(file, CORRECTED, form=form)
    model.accept()
    file.retry(first)
    return file


def check(machine: Machine, *, form: str = "text") -> None:
    ids = [f"r{one}" if form == "text" else one for one in EXPECTED]
    expected = [
        {"index": at, "custom_id": one, "prediction": value + 0.5}
        for at, (one, value) in enumerate(zip(ids, EXPECTED.values(), strict=True))
    ]
    assert machine.results == expected


@pytest.mark.parametrize("corrected", ["text", "number"], indirect=True)
async def test_only_new_and_failed_records_are_sent(
    corrected: Machine, model: CountingModel, request: pytest.FixtureRequest
) -> None:
    ended = await corrected.process(**SMALL)
    assert (ended.code, ended.message) == (
        0,
        f"{len(CORRECTED)} of {len(CORRECTED)} records predicted",
    ), ended.stderr
    assert model.rows == dict.fromkeys(SENT, 1)
    check(corrected, form=request.node.callspec.params["corrected"])
    assert list((corrected.folder / "tmp").iterdir()) == []


async def test_several_pods_take_over_the_same_predictions(
    corrected: Machine, model: CountingModel
) -> None:
    shards = {**SMALL, "INFERRUN_SHARDS": "3", "INFERRUN_CLAIM_SECONDS": "6"}
    pods = [
        await corrected.start(environment={**shards, "JOB_COMPLETION_INDEX": str(at)})
        for at in range(3)
    ]
    for pod in pods:
        ended = await pod.end()
        assert (ended.code, ended.message) == (
            0,
            f"{len(CORRECTED)} of {len(CORRECTED)} records predicted",
        ), ended.stderr
    assert set(model.rows) == SENT
    check(corrected)


async def test_a_retry_of_a_retry_takes_over_what_both_have_predicted(
    corrected: Machine, model: CountingModel
) -> None:
    model.reject({77})
    second = await corrected.pod(**SMALL)
    assert second.result.records.failed == 1
    write(corrected, {**CORRECTED, 601: 601.0})
    model.accept()
    corrected.retry(second, number=3)
    await corrected.success(**SMALL)
    assert set(model.rows) == {77.0, 601.0}


async def test_a_record_that_is_not_valid_any_more_has_no_prediction(corrected: Machine) -> None:
    path = corrected.input / "data" / "rows.jsonl"
    path.write_text(
        path.read_text().replace('"r7", "inputs": [7.0, 0.5]', '"r7", "inputs": [7.0, "a"]')
    )
    ended = await corrected.success(**SMALL)
    assert ended.result.records.failed == 1
    (failed,) = [one for one in corrected.results if "error" in one]
    assert (failed["custom_id"], failed["error"]["code"]) == ("r7", "invalid_input")


async def test_an_id_that_is_not_unique_in_the_corrected_input_is_an_error(
    corrected: Machine,
) -> None:
    with (corrected.input / "data" / "rows.jsonl").open("a") as rows:
        rows.write('{"custom_id": "r7", "inputs": [1, 2]}\n')
    await corrected.final_failure(
        3, "several records of the input have the custom_id 'r7'", **SMALL
    )
    assert not corrected.run_folder.exists()


@pytest.mark.parametrize("form", ["jsonl", "openai"])
async def test_an_id_that_was_not_unique_in_the_ended_run_is_an_error(
    file: Machine, model: CountingModel, form: str
) -> None:
    """Also if one of the two has failed, which only the error file of some formats says."""
    lines = [{"custom_id": "twice", "inputs": [at, 0.5]} for at in (1, 3)]
    path = file.input / "data" / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    file.contract["output"]["file"]["format"] = form
    model.reject(BAD)
    first = await file.pod(**SMALL)
    assert first.result.records.failed == 1, first.message
    path.write_text(json.dumps(lines[1]) + "\n")
    file.retry(first)
    await file.final_failure(3, "several records of run 'sums' have the custom_id 'twice'", **SMALL)


async def test_predictions_that_do_not_fit_on_the_disk_are_an_error(corrected: Machine) -> None:
    await corrected.final_failure(
        3,
        "cannot be held on the Pod's disk",
        "set a larger limits.spool",
        **SMALL,
        INFERRUN_SPOOL_BYTES="16384",
    )


def table(ids: Iterable[int]) -> pyarrow.Table:
    found = list(ids)
    x = pyarrow.array([float(one) for one in found])
    return pyarrow.table(
        {
            "custom_id": pyarrow.array(found, pyarrow.int32()),
            "x": x,
            "tag": [f"t{one}" for one in found],
        }
    )


@pytest.mark.parametrize("unread", ["", "custom_id"])
async def test_files_that_were_added_are_read_if_records_have_ids(
    file: Machine, model: CountingModel, unread: str
) -> None:
    has_ids = not unread

    def store(name: str, ids: Iterable[int]) -> None:
        found = table(ids)
        parquet.write_table(
            found.drop_columns([unread] if unread else []), file.input / "data" / name
        )

    (file.contract["input"]["file"]).update(path="data", format="parquet")
    file.contract["output"]["file"]["format"] = "parquet"
    file.contract |= {
        "tensors": {"inputs": [{"name": "input-0", "columns": ["x"]}]},
        "passThroughColumns": ["tag"],
    }
    store("b.parquet", range(COUNT))
    model.reject(BAD)
    first = await file.pod(**SMALL)
    assert first.result.records.failed == len(BAD), first.message
    model.accept()
    store("a.parquet", range(1000, 1010))
    file.retry(first)
    second = await file.pod(**SMALL)
    total = COUNT + 10 * has_ids
    assert (second.code, second.message) == (0, f"{total} of {total} records predicted")
    assert set(model.rows) == BAD | (set(range(1000, 1010)) if has_ids else set())
    found = parquet.read_table(file.run_folder / "predictions")
    ids = [*range(1000, 1010), *range(COUNT)] if has_ids else [*range(COUNT)]
    assert found["prediction"].to_pylist() == ids
    assert found["tag"].to_pylist() == [f"t{one}" for one in ids]
    if has_ids:
        assert (found["custom_id"].type, found["custom_id"].to_pylist()) == (pyarrow.int32(), ids)


async def test_rows_are_found_by_keys_of_several_columns(
    machine: Machine, model: CountingModel, tmp_path: Path
) -> None:
    with postgres_server() as server:
        server.execute(
            "create table sales (day date, shop text, a float8, b float8, primary key (day, shop))"
        )
        server.execute(
            "insert into sales select '2026-01-01'::date + n, 's' || n % 3, n, 0.5 from generate_series(0, 499) n"
        )
        reference = {"credentialsRef": {"name": "database"}}
        machine.contract |= {
            "jobId": (uid := str(uuid.uuid4())),
            "runId": uid,
            "input": {
                "sql": {
                    **reference,
                    "query": "select day, shop, a, b from sales",
                    "key": ["day", "shop"],
                }
            },
            "output": {"sql": {**reference, "table": "predictions"}},
        }
        for side in ("input", "output"):
            server.mount(machine.folder / "endpoints" / side)
        model.reject(BAD)
        first = await machine.pod(**SMALL)
        assert first.result.records.failed == len(BAD), first.message
        server.execute("update sales set a = a + 1000 where a in (3, 4, 200)")
        server.execute("delete from sales where a = 100")
        server.execute("insert into sales values ('2020-02-02', 'new', 600, 0.5)")
        model.accept()
        machine.retry(first)
        await machine.success("500 of 500 records predicted", **SMALL)
        assert set(model.rows) == SENT
        stored = server.execute(
            "select index, custom_id, prediction from predictions where run = %s order by index",
            machine.contract["runId"],
        )
        rows: list[tuple[Any, ...]] = server.execute(
            "select day::text, shop, a from sales order by day, shop"
        )
    expected = [
        (at, json.dumps([day, shop]), (200 if a == 1200 else a) + 0.5)
        for at, (day, shop, a) in enumerate(rows)
    ]
    assert stored == expected
