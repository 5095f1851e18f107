"""`retryOf` with the real program: only what failed is sent again, and the new output is complete."""

import json
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from inferrun.reasons import Reason
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.s3_server import S3Server, credentials, s3_server
from tests.integration.runner.servers import CountingModel, Handler, nothing

pytestmark = pytest.mark.thorough

COUNT = 500
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
FIRST = "inf-sums-5be07ada"
BAD = {3, 4, 77, 250, 499}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    text = "".join(f"[{index}, 0.5]\n" for index in range(COUNT))
    (file.input / "data" / "rows.jsonl").write_text(text)


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with s3_server(tmp_path / "s3") as server:
        yield server


def reject(model: CountingModel, bad: Iterable[int]) -> None:
    """Reject every request that contains one of these records."""
    rejected = set(bad)

    async def hook(request: web.Request) -> web.StreamResponse | None:
        tensor = orjson.loads(await request.read())["inputs"][0]
        return web.Response(status=422) if rejected & set(tensor["data"][:: tensor["shape"][1]]) else None

    model.before = hook


def retry(machine: Machine, ended: Ended | None, *, number: int = 2, of: dict[str, Any] | None = None) -> None:
    """Make the next Pod one of a new run that retries the last one."""
    before = machine.contract
    retried = {"name": "sums", "runId": before["runId"], "jobName": before["jobName"]}
    if ended is not None and ended.code == 0:
        retried["manifestSha256"] = ended.result.output.sha256
    uid = str(uuid.uuid4())
    machine.contract = {
        **before,
        "jobId": uid,
        "runId": uid,
        "jobName": f"inf-again-{number}",
        "retryOf": of or retried,
    }


def lines_in(folder: Path) -> list[dict[str, Any]]:  # Any: JSON
    parts = sorted((folder / "predictions").iterdir())
    return [orjson.loads(line) for part in parts for line in part.read_bytes().splitlines()]


def folder_of(machine: Machine) -> Path:
    return machine.output / "results" / str(machine.contract["jobName"])


def whole() -> list[dict[str, Any]]:  # Any: JSON
    return [{"index": index, "prediction": index + 0.5} for index in range(COUNT)]


async def test_only_what_failed_is_sent_again_and_the_output_is_complete(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.process(**SMALL)
    assert (first.code, first.result.records.failed) == (0, len(BAD)), first.stderr
    model.rows.clear()
    model.before = nothing
    retry(file, first)
    second = await file.process(**SMALL)
    assert (second.code, second.message) == (0, "500 of 500 records predicted"), second.stderr
    assert set(model.rows) == BAD
    assert lines_in(folder_of(file)) == whole()
    manifest = json.loads((folder_of(file) / "manifest.json").read_text())
    assert manifest["records"] == {"total": COUNT, "completed": COUNT, "failed": 0}
    assert manifest["retryOf"] == file.contract["retryOf"]["runId"]
    assert not (folder_of(file) / "errors").exists()


async def test_the_output_of_the_retried_run_stays_as_it_was(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    folder = folder_of(file)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    retry(file, first)
    model.before = nothing
    assert (await file.pod(**SMALL)).code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


async def test_retries_can_be_chained(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    reject(model, {77})
    retry(file, first)
    second = await file.pod(**SMALL)
    assert second.result.records.failed == 1
    model.rows.clear()
    model.before = nothing
    retry(file, second, number=3)
    third = await file.pod(**SMALL)
    assert (third.code, third.message) == (0, "500 of 500 records predicted")
    assert set(model.rows) == {77}
    assert lines_in(folder_of(file)) == whole()


async def test_a_failed_run_is_continued_after_its_committed_chunks(file: Machine, model: CountingModel) -> None:
    reject(model, range(300, 320))
    file.contract["errorThreshold"] = "5"
    first = await file.pod(**SMALL, INFERRUN_CONCURRENCY="1")
    assert first.result.reason is Reason.ERROR_THRESHOLD_EXCEEDED
    committed = {line["index"] for line in lines_in(folder_of(file))}
    assert 0 < len(committed) < 300
    model.rows.clear()
    model.before = nothing
    retry(file, first)
    second = await file.pod(**SMALL)
    assert (second.code, second.message) == (0, "500 of 500 records predicted")
    assert set(model.rows) == set(range(COUNT)) - committed
    assert lines_in(folder_of(file)) == whole()


async def test_a_run_without_output_is_repeated_as_a_whole(file: Machine, model: CountingModel) -> None:
    retry(file, None)
    ended = await file.process(**SMALL)
    assert (ended.code, len(model.rows)) == (0, COUNT)
    assert "the retried run has no output, so every record is predicted" in ended.stderr


async def test_an_input_without_ids_that_has_changed_is_an_error(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    (file.input / "data" / "rows.jsonl").write_text("[1, 2]\n")
    retry(file, first)
    ended = await file.pod(**SMALL)
    assert (ended.code, ended.result.retryable) == (3, False)
    assert "the input differs from the one that run 'sums' read, and its records have no custom_id" in ended.message


async def test_an_output_that_was_changed_or_deleted_is_an_error(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    folder = folder_of(file)
    part = min((folder / "predictions").iterdir())
    part.write_bytes(part.read_bytes().replace(b"0.5", b"0.7", 1))
    retry(file, first)
    ended = await file.pod(**SMALL)
    assert (ended.code, ended.result.retryable) == (5, False)
    assert (
        f"made/results/{FIRST}/predictions/{part.name} is missing or has changed since it was committed"
        in ended.message
    )
    (folder / "manifest.json").unlink()
    ended = await file.pod(**SMALL)
    assert (ended.code, "manifest.json is missing, although that run has succeeded" in ended.message) == (5, True)


async def test_the_output_of_another_run_is_not_taken(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    retry(file, first, of={"name": "sums", "runId": "another", "jobName": FIRST})
    ended = await file.pod(**SMALL)
    assert (ended.code, "belongs to another run" in ended.message) == (5, True)


async def test_a_link_in_place_of_the_earlier_results_is_not_followed(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    part = min((folder_of(file) / "predictions").iterdir())
    secret = file.folder / "outside"
    part.replace(secret)
    part.symlink_to(secret)
    retry(file, first)
    assert (await file.pod(**SMALL)).code == 5


async def test_a_retry_in_a_bucket(file: Machine, model: CountingModel, s3: S3Server) -> None:
    file.contract["output"] = {"s3": s3.spec("made")}
    credentials(file.folder / "endpoints" / "output")
    reject(model, BAD)
    first = await file.pod(**SMALL)
    assert (first.code, first.result.records.failed) == (0, len(BAD)), first.message
    model.rows.clear()
    model.before = nothing
    retry(file, first)
    second = await file.pod(**SMALL)
    assert (second.code, second.message) == (0, "500 of 500 records predicted")
    assert set(model.rows) == BAD
    assert lines_in(s3.bucket / "made" / "inf-again-2") == whole()


async def test_a_data_handler_cannot_be_retried(krateo: Machine, handler: Handler) -> None:
    handler.rows = [[1.0, 2.0]]
    retry(krateo, None)
    ended = await krateo.pod()
    assert (ended.code, handler.stored) == (2, [])
    assert "retryOf: an output of the label 'krateo' cannot be completed" in ended.message


async def test_a_dry_run_of_a_retry_says_how_much_is_kept(file: Machine, model: CountingModel) -> None:
    reject(model, BAD)
    first = await file.pod(**SMALL)
    retry(file, first)
    file.contract["dryRun"] = True
    ended = await file.pod(**SMALL)
    assert (ended.code, "495 of 500 predictions are taken from the retried run" in ended.message) == (0, True)
