"""A run whose manifest exists has succeeded: the exit code is 0 if and only if it exists, whenever
the process is stopped."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.integration.runner.pausing import STEPS, pause_at
from tests.integration.runner.pods import Ended, Machine, until
from tests.integration.runner.servers import CountingModel, holding_after, nothing

pytestmark = pytest.mark.thorough

SLOW, HANGING = 0.5, 3600.0


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    file.write_rows([index, 1] for index in range(100))


def manifest(machine: Machine) -> Path:
    return machine.output / "results" / str(machine.contract["jobName"]) / "manifest.json"


async def stopped_at(machine: Machine, step: str, *, seconds: float, folder: Path) -> Ended:
    """Send SIGTERM while the process pauses at a step of its commit."""
    pod = await machine.start(environment=pause_at(step, folder=folder, seconds=seconds))
    await until((folder / "paused").exists)
    pod.signal(signal.SIGTERM)
    return await asyncio.wait_for(pod.end(), 20)


def assert_consistent(machine: Machine, ended: Ended, *, code: int) -> None:
    assert (ended.code == 0) == manifest(machine).exists(), ended.stderr
    if ended.code == 0:
        assert (ended.result.reason, ended.message) == ("Succeeded", "100 of 100 records predicted")
    else:
        assert ended.code == code


@pytest.mark.parametrize("seconds", [SLOW, HANGING], ids=["slow", "hanging"])
@pytest.mark.parametrize("step", STEPS)
async def test_sigterm_during_the_commit_exits_with_0_if_the_manifest_exists(
    file: Machine, tmp_path: Path, step: str, seconds: float
) -> None:
    ended = await stopped_at(file, step, seconds=seconds, folder=tmp_path)
    assert_consistent(file, ended, code=143)
    assert ended.code == 0 or seconds == HANGING


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        ("draft", HANGING),
        ("before_link", 5.0),
        ("after_link", HANGING),
        ("folder", HANGING),
        ("cleanup", HANGING),
    ],
)
async def test_the_deadline_during_the_commit_exits_with_0_if_the_manifest_exists(
    file: Machine, tmp_path: Path, step: str, seconds: float
) -> None:
    environment = pause_at(step, folder=tmp_path, seconds=seconds)
    ended = await file.process(INFERRUN_SECONDS_LEFT="6", **environment)
    assert (tmp_path / "paused").exists()
    assert_consistent(file, ended, code=6)


async def test_an_attempt_that_fails_after_another_committed_the_run_exits_with_0(
    file: Machine, model: CountingModel
) -> None:
    model.before = holding_after(model, requests=1)
    late = await file.start(environment={"INFERRUN_BATCH_ROWS": "10", "INFERRUN_CONCURRENCY": "1"})
    await until(lambda: model.in_flight > 0 and len(model.requests) == 1)
    model.before = nothing
    assert (await file.process()).code == 0
    late.signal(signal.SIGTERM)
    ended = await late.end()
    assert_consistent(file, ended, code=143)
    assert ended.code == 0
