"""Log lines name the run that they are about, and the level can be changed while the process
runs."""

import asyncio
import json
import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from control.log_subjects import OWN_PACKAGES, add_subject, fields_of_run, log_about
from control.run_defaults_folder import DefaultsFolder
from control.work_queue import WorkQueue
from inferrun.logs import JsonLines
from inferrun.names import run_workflow_id
from tests.unit.objects import RUN

NAMED = {"namespace": RUN.namespace, "run": RUN.name, "workflow": run_workflow_id(RUN)}


@pytest.fixture
def log() -> Iterator[StringIO]:
    """The log of a program; levels are restored."""
    loggers = [logging.getLogger(name) for name in ("", *OWN_PACKAGES)]
    levels = [one.level for one in loggers]
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(add_subject)
    loggers[0].addHandler(handler)
    loggers[0].setLevel("INFO")
    yield stream
    loggers[0].removeHandler(handler)
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)


def lines(log: StringIO) -> list[dict[str, Any]]:  # Any: JSON
    return [json.loads(line) for line in log.getvalue().splitlines()]


async def test_all_lines_of_a_task_name_the_run_that_it_is_about(log: StringIO) -> None:
    async def work(attempt: int) -> None:
        log_about(fields_of_run(RUN, attempt=attempt))
        await asyncio.sleep(0)
        logging.getLogger("a.library").warning("failed", extra={"attempt_of_library": 7})

    await asyncio.gather(work(1), work(2))
    logging.getLogger("worker").info("of no run")
    first, second, other = lines(log)
    assert NAMED.items() <= first.items()
    assert (first["attempt"], second["attempt"], first["attempt_of_library"]) == (1, 2, 7)
    assert not other.keys() & {"run", "workflow", "attempt"}


async def test_a_failed_reconcile_names_its_run_and_the_next_one_does_not(log: StringIO) -> None:
    failed: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(key: str) -> None:
        if key == "run":
            log_about(fields_of_run(RUN, attempt=3))
        failed.put_nowait(key)
        raise ValueError(key)

    queue: WorkQueue[str] = WorkQueue(reconcile, workers=1)
    queue.add("run")
    queue.add("other")
    task = asyncio.create_task(queue.run())
    async with asyncio.timeout(5):
        assert [await failed.get(), await failed.get()] == ["run", "other"]
        while len(lines(log)) < 2:  # noqa: ASYNC110 -- a log has no event of its own
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    first, second = lines(log)[:2]
    assert {**NAMED, "attempt": 3, "message": "reconcile failed"}.items() <= first.items()
    assert not second.keys() & {"run", "namespace", "workflow", "attempt"}


def test_a_line_of_the_sdk_about_a_workflow_names_its_run(log: StringIO) -> None:
    for identity in (f"{run_workflow_id(RUN)}/recover", "nightly"):
        task = {"workflow_id": identity, "namespace": "default", "attempt": 12}
        logging.getLogger("temporalio.worker").warning(
            "Failed activation", extra={"temporal_workflow": task}
        )
    of_run, of_submission = lines(log)
    assert {**NAMED, "workflow": f"{run_workflow_id(RUN)}/recover"}.items() <= of_run.items()
    assert of_submission["workflow"] == "nightly"
    assert not of_submission.keys() & {"run", "namespace"}


def test_the_level_changes_with_its_setting_and_never_shows_payloads_of_the_sdk(
    log: StringIO, tmp_path: Path
) -> None:
    ours, sdk = logging.getLogger("worker.composition"), logging.getLogger("temporalio.worker")
    folder = DefaultsFolder(tmp_path)

    def logged(level: str) -> list[str]:
        (tmp_path / "logLevel").write_text(level)
        folder.reread()
        log.truncate(log.seek(0))
        for severity in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            ours.log(severity, "ours")
            sdk.log(severity, "SDK")
        return [f"{line['message']} {line['level']}" for line in lines(log)]

    assert logged("error") == ["ours error", "SDK error"]
    assert logged("warning") == ["ours warning", "SDK warning", "ours error", "SDK error"]
    everything = logged("debug")
    assert everything[:2] == ["ours debug", "ours info"]
    assert "SDK debug" not in everything
    assert logged("verbose") == everything
    assert logged("info") == everything[1:]
