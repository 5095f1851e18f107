"""The process: exit codes, signals, the deadline, the log."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.integration.runner.pods import Machine, until
from tests.integration.runner.servers import CountingModel, Handler, holding_after, never, nothing


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = [[float(index), 1.0] for index in range(1000)]


async def test_an_invalid_contract_exits_with_2_and_names_the_field(krateo: Machine) -> None:
    krateo.contract["parameters"] = {"limit": 5}
    ended = await krateo.process()
    assert (ended.code, ended.result.reason) == (2, "InvalidContract")
    assert (
        ended.message == "contract.json: parameters.limit: Input should be a valid string, got '5'"
    )
    assert "Traceback" not in ended.stderr


async def test_a_reserved_parameter_exits_with_2(krateo: Machine, handler: Handler) -> None:
    krateo.contract["parameters"]["job_uid"] = "mine"
    ended = await krateo.process()
    assert (ended.code, ended.message) == (
        2,
        "parameters: job_uid is reserved for the runner; use another name",
    )
    assert not handler.asked


@pytest.mark.parametrize("value", ["soon", "inf"])
async def test_an_invalid_setting_exits_with_2_and_names_the_variable(
    krateo: Machine, value: str
) -> None:
    ended = await krateo.process(INFERRUN_SECONDS_LEFT=value)
    assert (ended.code, ended.result.reason) == (2, "InvalidContract")
    assert ended.message.startswith("environment variable INFERRUN_SECONDS_LEFT: ")
    assert "Traceback" not in ended.stderr


async def test_input_inference_and_output_errors_exit_with_3_4_and_5(
    krateo: Machine, handler: Handler
) -> None:
    krateo.endpoint("output", {"server-url": "http://127.0.0.1:9"})
    assert (await krateo.process()).code == 5
    krateo.contract["kserve"]["modelUrl"] = "127.0.0.1:9"
    assert (await krateo.process()).code == 4
    krateo.endpoint("input", {"server-url": "http://127.0.0.1:9"})
    ended = await krateo.process()
    assert ended.code == 3
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("stage", ["input", "model"])
async def test_the_deadline_ends_the_process_with_6_at_every_stage(
    krateo: Machine, handler: Handler, model: CountingModel, stage: str
) -> None:
    if stage == "input":
        handler.before_input = never
    else:
        model.before = never
    started = asyncio.get_running_loop().time()
    ended = await krateo.process(INFERRUN_SECONDS_LEFT="6")
    assert (ended.code, ended.result.reason) == (6, "DeadlineExceeded")
    assert ended.message == "deadline reached after 6 s; committed chunks are kept"
    assert asyncio.get_running_loop().time() - started >= 6.0


async def test_the_deadline_while_a_data_handler_stores_the_predictions_leaves_the_question_open(
    krateo: Machine, handler: Handler
) -> None:
    handler.before_output = never
    ended = await krateo.process(INFERRUN_SECONDS_LEFT="6")
    assert (ended.code, ended.is_readable) == (6, False)
    assert ended.message.startswith("deadline reached after 6 s; a commit was in progress")


BLOCKS = """
import asyncio, time
asyncio.shield = lambda _: time.sleep(60)
"""
"""A `sitecustomize` module that blocks the event loop when the run is committed."""


async def test_a_process_that_is_blocked_at_the_deadline_leaves_the_question_open(
    file: Machine, tmp_path: Path
) -> None:
    (file.input / "data" / "rows.jsonl").write_text("[1, 2]\n")
    (tmp_path / "sitecustomize.py").write_text(BLOCKS)
    ended = await file.process(INFERRUN_SECONDS_LEFT="6", PYTHONPATH=str(tmp_path))
    assert (ended.code, ended.is_readable) == (6, False)
    assert ended.message == "deadline reached after 6 s; whether the run is committed is not known"


async def test_a_launch_without_time_left_exits_with_6_before_it_sends_anything(
    krateo: Machine, handler: Handler
) -> None:
    assert (await krateo.process(INFERRUN_SECONDS_LEFT="0")).code == 6
    assert not handler.stored


async def test_sigterm_ends_the_process_with_143_immediately(
    krateo: Machine, model: CountingModel
) -> None:
    model.before = never
    pod = await krateo.start(environment={"INFERRUN_BATCH_ROWS": "10"})
    await until(lambda: model.in_flight > 0)
    pod.signal(signal.SIGTERM)
    ended = await asyncio.wait_for(pod.end(), 30)
    assert (ended.code, ended.result.reason) == (143, "Stopped")
    assert ended.result.records.total == 1000


async def test_sigterm_while_a_data_handler_stores_the_predictions_leaves_the_question_open(
    krateo: Machine, handler: Handler
) -> None:
    handler.before_output = never
    sent = len(handler.headers)
    pod = await krateo.start()
    await until(lambda: len(handler.headers) == sent + 2)
    pod.signal(signal.SIGTERM)
    ended = await asyncio.wait_for(pod.end(), 30)
    assert (ended.code, ended.is_readable) == (143, False)


def handles_sigterm(pid: int) -> bool:
    caught = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigCgt:")
    )
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))


def has_imported(pid: int, name: str) -> bool:
    return name in Path(f"/proc/{pid}/maps").read_text()


async def test_sigterm_ends_the_process_with_143_before_its_imports_are_complete(
    krateo: Machine,
) -> None:
    """Process 1 of a container ignores a signal that it does not handle."""
    pod = await krateo.start()
    pid = pod.process.pid
    await until(lambda: has_imported(pid, "aiohttp") or handles_sigterm(pid))
    assert not has_imported(pid, "aiohttp")
    pod.signal(signal.SIGTERM)
    assert (await pod.end()).code == 143


async def test_committed_chunks_are_kept_after_sigterm(file: Machine, model: CountingModel) -> None:
    file.write_rows([index, 1] for index in range(1000))

    model.before = holding_after(model, requests=6)
    environment = {
        "INFERRUN_CHUNK_BYTES": "500",
        "INFERRUN_BATCH_ROWS": "50",
        "INFERRUN_CONCURRENCY": "1",
    }
    pod = await file.start(environment=environment)
    commits = file.output / "results" / "inf-sums-5be07ada" / "commits"
    await until(lambda: len(list(commits.glob("0*.json"))) > 2 and model.in_flight > 0)
    pod.signal(signal.SIGTERM)
    ended = await pod.end()
    assert ended.code == 143
    parts = [json.loads(commit.read_bytes())["part"] for commit in commits.glob("0*.json")]
    kept = {at for one in parts for at in range(one["first"], one["first"] + one["records"])}
    kept |= file.saved  # some of them may have been committed at the last moment
    model.before = nothing
    seen = sum(model.rows.values())
    assert (await file.process(**environment)).code == 0
    assert sum(model.rows.values()) - seen == 1000 - len(kept)
    assert set(model.rows) == {float(index) for index in range(1000)}


async def test_completed_records_are_those_that_are_committed(
    file: Machine, model: CountingModel
) -> None:
    file.write_rows([index, 1] for index in range(1000))
    model.before = holding_after(model, requests=6)
    environment = {
        "INFERRUN_CHUNK_BYTES": "500",
        "INFERRUN_BATCH_ROWS": "20",
        "INFERRUN_CONCURRENCY": "1",
    }
    pod = await file.start(environment=environment)
    folder = file.output / "results" / "inf-sums-5be07ada" / "commits"
    await until(
        lambda: model.in_flight > 0 and len(model.requests) == 6 and any(folder.glob("0*.json"))
    )
    pod.signal(signal.SIGTERM)
    ended = await pod.end()
    stored = sum(
        json.loads(commit.read_bytes())["part"]["records"] for commit in folder.glob("0*.json")
    )
    assert 0 < stored < 120
    # 0 if the signal came before the commit was noticed
    assert ended.result.records.completed in {0, stored}


async def test_an_internal_error_exits_with_1_and_logs_its_traceback(
    krateo: Machine, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(
        "def open_input(spec, context):\n    return 1 / 0  # token-123\n"
    )
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 1\n"
    )
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_text(
        "[inferrun.stores.input]\nbroken = broken:open_input\n"
    )
    krateo.contract["input"] = {"broken": {}}
    ended = await krateo.process(PYTHONPATH=str(tmp_path))
    assert (ended.code, ended.result.reason) == (1, "RunnerError")
    assert ended.message == "internal error: ZeroDivisionError; see the traceback in the Pod's log"
    assert "builtins.ZeroDivisionError" in ended.stderr
    assert "division by zero" not in ended.stderr


async def test_every_line_of_the_log_is_json(krateo: Machine) -> None:
    ended = await krateo.process()
    lines = [json.loads(line) for line in (ended.stdout + ended.stderr).splitlines()]
    assert {line["event"] for line in lines} == {"progress", "log"}
    last = next(line for line in lines if line.get("message") == "run ended")
    assert (last["exit_code"], last["reason"], last["level"]) == (0, "Succeeded", "info")


async def test_an_unwritable_termination_log_does_not_fail_the_run(krateo: Machine) -> None:
    ended = await krateo.process(INFERRUN_TERMINATION_LOG="/nowhere/termination-log")
    assert ended.code == 0
    assert "cannot write the termination message" in ended.stderr
