"""The program that asks the output store whether a run is committed, as its Pod runs it."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from inferrun.runner_report import OutputFinding, OutputState, parse_report
from tests.integration.runner.pausing import pause_at
from tests.integration.runner.pods import REPOSITORY, Machine, until

HANGING = 3600.0


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    (file.input / "data" / "rows.jsonl").write_text(
        "".join(f"[{index}, 1]\n" for index in range(100))
    )


async def verified(machine: Machine, *words: str) -> tuple[int | None, OutputFinding | None, str]:
    """Exit code, finding and message of the program."""
    environment = machine.environment_of_next_pod()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inferrun_runner.verify", *words, cwd=REPOSITORY, env=environment
    )
    code = await asyncio.wait_for(process.wait(), 30)
    text = await asyncio.to_thread(Path(environment["INFERRUN_TERMINATION_LOG"]).read_text)
    return code, parse_report(OutputFinding, text), text


@pytest.mark.parametrize("step", ["after_link", "folder", "cleanup"])
async def test_a_run_whose_process_was_killed_after_its_commit_is_committed(
    file: Machine, tmp_path: Path, step: str
) -> None:
    pod = await file.start(environment=pause_at(step, folder=tmp_path, seconds=HANGING))
    await until((tmp_path / "paused").exists)
    pod.signal(signal.SIGKILL)
    assert (await pod.end()).code == -signal.SIGKILL
    for words in ((), ("--final",)):
        code, finding, _ = await verified(file, *words)
        assert code == 0
        assert finding is not None
        assert (finding.state, finding.records.completed) == (OutputState.COMMITTED, 100)
        assert finding.output.manifest.endswith("/manifest.json")


@pytest.mark.parametrize("step", ["draft", "before_link"])
async def test_a_run_whose_process_was_killed_before_its_commit_is_not_committed_and_continues(
    file: Machine, tmp_path: Path, step: str
) -> None:
    pod = await file.start(environment=pause_at(step, folder=tmp_path, seconds=HANGING))
    await until((tmp_path / "paused").exists)
    pod.signal(signal.SIGKILL)
    await pod.end()
    code, finding, _ = await verified(file)
    assert (code, finding and finding.state) == (0, OutputState.NOT_COMMITTED)
    assert (await file.process()).message == "100 of 100 records predicted"


async def test_a_pod_that_was_believed_lost_cannot_commit_after_the_final_verification(
    file: Machine, tmp_path: Path
) -> None:
    late = await file.start(environment=pause_at("before_link", folder=tmp_path, seconds=15.0))
    await until((tmp_path / "paused").exists)
    code, finding, _ = await verified(file, "--final")
    assert (code, finding and finding.state) == (0, OutputState.NOT_COMMITTED)
    ended = await late.end()
    assert ended.code == 5
    assert "was aborted" in ended.message
    code, finding, _ = await verified(file)
    assert (code, finding and finding.state) == (0, OutputState.NOT_COMMITTED)


async def test_a_store_that_cannot_be_read_is_no_answer(file: Machine) -> None:
    (file.output / "results").write_text("a file, not a folder")
    code, finding, text = await verified(file, "--final")
    assert (code, finding) == (5, None)
    assert "output.file" in text
