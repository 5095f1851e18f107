"""`retryOf` with the real program: only what failed is sent again, and the new output is
complete."""

from typing import Any

import pytest

from inferrun.reasons import Reason
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler

pytestmark = pytest.mark.thorough

COUNT = 500
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
FIRST = "inf-sums-5be07ada"
BAD = {3, 4, 77, 250, 499}


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    file.write_rows([index, 0.5] for index in range(COUNT))


def whole() -> list[dict[str, Any]]:  # Any: JSON
    return [{"index": index, "prediction": index + 0.5} for index in range(COUNT)]


async def test_a_failed_run_is_continued_after_its_committed_chunks(
    file: Machine, model: CountingModel
) -> None:
    model.reject(range(300, 320))
    file.contract["errorThreshold"] = "5"
    first = await file.pod(**SMALL, INFERRUN_CONCURRENCY="1")
    assert first.result.reason is Reason.ERROR_THRESHOLD_EXCEEDED
    committed = {line["index"] for line in file.results}
    assert 0 < len(committed) < 300
    kept = committed | file.saved
    assert len(kept) > len(committed)
    model.accept()
    file.retry(first)
    await file.success("500 of 500 records predicted", **SMALL)
    assert set(model.rows) == set(range(COUNT)) - kept
    assert file.results == whole()


async def test_a_run_without_output_is_repeated_as_a_whole(
    file: Machine, model: CountingModel
) -> None:
    file.retry(None)
    ended = await file.process(**SMALL)
    assert (ended.code, len(model.rows)) == (0, COUNT)
    assert "the retried run has no output, so every record is predicted" in ended.stderr


async def test_an_input_without_ids_that_has_changed_is_an_error(
    file: Machine, model: CountingModel
) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    (file.input / "data" / "rows.jsonl").write_text("[1, 2]\n")
    file.retry(first)
    await file.final_failure(
        3,
        "the input differs from the one that run 'sums' read, and its records have no custom_id",
        **SMALL,
    )


async def test_an_output_that_was_changed_or_deleted_is_an_error(
    file: Machine, model: CountingModel
) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    folder = file.run_folder
    part = min((folder / "predictions").iterdir())
    part.write_bytes(part.read_bytes().replace(b"0.5", b"0.7", 1))
    file.retry(first)
    await file.final_failure(
        5,
        f"made/results/{FIRST}/predictions/{part.name} is missing or has changed since it was committed",
        **SMALL,
    )
    (folder / "manifest.json").unlink()
    await file.failure(5, "manifest.json is missing, although that run has succeeded", **SMALL)


async def test_the_output_of_another_run_is_not_taken(file: Machine, model: CountingModel) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    file.retry(first)
    file.contract["retryOf"] = {"name": "sums", "runId": "another", "jobName": FIRST}
    await file.failure(5, "belongs to another run", **SMALL)


async def test_a_link_in_place_of_the_earlier_results_is_not_followed(
    file: Machine, model: CountingModel
) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    part = min((file.run_folder / "predictions").iterdir())
    secret = file.folder / "outside"
    part.replace(secret)
    part.symlink_to(secret)
    file.retry(first)
    await file.failure(5, **SMALL)


async def test_a_data_handler_cannot_be_retried(krateo: Machine, handler: Handler) -> None:
    handler.rows = [[1.0, 2.0]]
    krateo.retry(None)
    ended = await krateo.failure(2)
    assert handler.stored == []
    assert "retryOf: an output of the label 'krateo' cannot be completed" in ended.message


async def test_a_dry_run_of_a_retry_says_how_much_is_kept(
    file: Machine, model: CountingModel
) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    file.retry(first)
    file.contract["dryRun"] = True
    ended = await file.success(**SMALL)
    assert "495 of 500 predictions are taken from the retried run" in ended.message
