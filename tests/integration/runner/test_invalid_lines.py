"""Lines of the input that are not valid: each costs one record, and an input of another format ends
the run."""

import pytest

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel

COUNT = 400
BAD = {7, 8, 200, 399}
SMALL = {"INFERRUN_CHUNK_BYTES": "512", "INFERRUN_BATCH_ROWS": "50"}


def content(form: str) -> bytes:
    if form == "csv":
        return b"custom_id,a,b\n" + b"".join(
            b"c%d,%d,%b\n" % (index, index, b"one" if index in BAD else b"0.5")
            for index in range(COUNT)
        )
    if form == "objects":
        return b"".join(
            b'{"custom_id":"c%d","inputs":[%d,%b]}\n'
            % (index, index, b"{}" if index in BAD else b"0.5")
            for index in range(COUNT)
        )
    return b"".join(
        b"[%d,\n" % index if index in BAD else b"[%d,0.5]\n" % index for index in range(COUNT)
    )


async def run(machine: Machine, text: bytes, *, form: str = "jsonl", **environment: str) -> Ended:
    (machine.input / "data" / f"rows.{form}").write_bytes(text)
    machine.contract["input"]["file"] |= {"path": f"data/rows.{form}", "format": form}
    return await machine.pod(**SMALL, **environment)


@pytest.mark.parametrize("form", ["numbers", "objects", "csv"])
async def test_a_line_that_is_not_valid_costs_one_record(
    file: Machine, model: CountingModel, form: str
) -> None:
    ended = await run(file, content(form), form="csv" if form == "csv" else "jsonl")
    assert ended.code == 0, ended.message
    assert (ended.result.records.total, ended.result.records.failed) == (COUNT, len(BAD))
    found = file.results
    assert [one["index"] for one in found] == list(range(COUNT))
    assert {one["index"]: one["prediction"] for one in found if "error" not in one} == {
        index: index + 0.5 for index in range(COUNT) if index not in BAD
    }
    errors = {one["index"]: one["error"] for one in found if "error" in one}
    assert set(errors) == BAD
    assert {(one["code"], one["attempts"]) for one in errors.values()} == {("invalid_input", 0)}
    assert f"line {8 + (form == 'csv')} " in errors[7]["message"]
    assert form == "numbers" or all(one["custom_id"] == f"c{one['index']}" for one in found)
    assert set(model.rows) == {index for index in range(COUNT) if index not in BAD}


async def test_the_error_threshold_counts_lines_that_are_not_valid(file: Machine) -> None:
    file.contract["errorThreshold"] = "3"
    ended = await run(file, content("numbers"))
    assert ended.code == 4
    assert "more than errorThreshold 3 allows" in ended.message


async def test_the_run_fails_if_most_of_the_first_records_are_not_valid(
    file: Machine, model: CountingModel
) -> None:
    ended = await run(file, b"[\n[1,2],\n[3,4],\n[5,6]\n]\n")
    assert (ended.code, ended.result.retryable) == (3, False)
    assert ended.message.startswith("rows.jsonl line 1 is not valid JSON")
    assert "of the first 5 records, 4 are not valid" in ended.message
    assert not model.rows


async def test_the_run_fails_if_a_thousand_records_in_a_row_are_not_valid(file: Machine) -> None:
    ended = await run(file, b"[1,2]\n" * 900 + b"x\n" * 3000)
    assert (ended.code, ended.result.retryable) == (3, False)
    assert "records in a row are not valid; rows.jsonl, the line at byte " in ended.message


async def test_a_dry_run_names_lines_that_are_not_valid(file: Machine) -> None:
    file.contract["dryRun"] = True
    ended = await run(file, b'[1,2]\n[3,"x"]\n[4,5]\n')
    assert ended.code == 0
    assert (
        "of which 1 are not valid and will fail (rows.jsonl line 2 contains a string at position 1; only numbers"
        in ended.message
    )
