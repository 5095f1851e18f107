"""What leaves the process: the result, the progress, the errors and the log."""

import io
import json
import logging
from pathlib import Path

import pytest

from inferrun.exitcodes import ExitCode
from inferrun.logs import JsonLines
from inferrun.reasons import Reason
from inferrun.runner_report import MESSAGE_LIMIT, parse_progress, parse_result
from runner.errors import (
    ContractError,
    DeadlineReached,
    InferenceError,
    InputError,
    OutputError,
    RunnerError,
    Stopped,
    first_error,
)
from runner.http_failures import excerpt
from runner.krateo.output import is_agreed
from runner.progress import ProgressLog
from runner.result_file import failure, write_result
from runner.values import Counts

CODES = {
    ContractError: (ExitCode.CONTRACT, Reason.INVALID_CONTRACT),
    InputError: (ExitCode.INPUT, Reason.INPUT_FAILED),
    InferenceError: (ExitCode.INFERENCE, Reason.INFERENCE_FAILED),
    OutputError: (ExitCode.OUTPUT, Reason.OUTPUT_FAILED),
    DeadlineReached: (ExitCode.DEADLINE, Reason.DEADLINE_EXCEEDED),
    Stopped: (ExitCode.STOPPED, Reason.STOPPED),
    RunnerError: (ExitCode.INTERNAL, Reason.RUNNER_ERROR),
}


@pytest.mark.parametrize("kind", CODES)
def test_every_error_has_its_code_and_reason(kind: type[RunnerError], tmp_path: Path) -> None:
    code, reason = CODES[kind]
    assert kind.code is code
    write_result(failure(kind("what was wrong"), Counts(total=5, completed=3)), tmp_path / "log")
    result = parse_result((tmp_path / "log").read_text())
    assert result
    assert (result.reason, result.message, result.records.completed) == (reason, "what was wrong", 3)


def test_an_error_that_is_not_ours_tells_its_type_and_nothing_of_its_text() -> None:
    result = failure(KeyError("token-123"), None)
    assert result.reason is Reason.RUNNER_ERROR
    assert result.message == "internal error: KeyError; the Pod's log has the traceback"


@pytest.mark.parametrize("character", ["x", "\x00", '"', "\\", "é", "漢", "🙂", "\n"])
def test_a_result_fits_whatever_the_error_holds(character: str, tmp_path: Path) -> None:
    write_result(failure(InputError(f"begin {character * 100_000}"), None), tmp_path / "log")
    text = (tmp_path / "log").read_bytes()
    assert len(text) <= MESSAGE_LIMIT
    result = parse_result(text.decode())
    assert result
    assert result.message.startswith("begin")
    assert "\n" not in result.message


def test_our_own_error_is_reported_among_those_of_a_group() -> None:
    group = ExceptionGroup("tasks", [ValueError("a"), ExceptionGroup("inner", [OutputError("b")])])
    assert str(first_error(group)) == "b"
    assert str(first_error(ExceptionGroup("tasks", [ValueError("a"), KeyError("b")]))) == "a"
    assert str(first_error(InputError("c"))) == "c"


def test_progress_is_told_rarely_and_always_on_demand() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=2.0, clock=lambda: now[0])
    for second in range(8):
        now[0] = second / 2
        log.tell(Counts(total=100, completed=second))
    log.tell_now(Counts(total=100, completed=99))
    completed = [json.loads(line)["records"]["completed"] for line in out.getvalue().splitlines()]
    assert completed == [0, 4, 99]


def test_progress_is_what_the_control_side_reads() -> None:
    out = io.StringIO()
    ProgressLog(out, every=2.0, clock=lambda: 0.0).tell(Counts(total=20, completed=4, failed=1))
    progress = parse_progress(out.getvalue())
    assert progress
    assert (progress.records.total, progress.records.completed, progress.records.failed) == (20, 4, 1)


def test_a_log_line_is_json_with_its_fields() -> None:
    record = logging.LogRecord("runner", logging.INFO, __file__, 1, "input is ready", (), None)
    record.records = 150
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"], line["records"]) == ("info", "input is ready", 150)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": "Model sklearn-iris not found"}', "Model sklearn-iris not found"),
        (b'{"error": {"code": 5}}', '{"error": {"code": 5}}'),
        (b"Traceback (most recent call last):\n  File", "Traceback (most recent call last): File"),
        (b"", "(an empty body)"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_a_foreign_answer_is_shown_on_one_line(body: bytes, shown: str) -> None:
    assert excerpt(body) == shown
    assert len(excerpt(body * 10_000)) <= 300


@pytest.mark.parametrize("body", [b"", b"  \n", b"ok", b"OK\n", b"{}", b'{"stored": 150}', b"[]", b'{"error": null}'])
def test_these_bodies_confirm_that_predictions_are_stored(body: bytes) -> None:
    assert is_agreed(body)


@pytest.mark.parametrize(
    "body", [b'{"error": "disk full"}', b"Traceback (most recent call last):\n", b"okay, but", b"<html>"]
)
def test_these_bodies_confirm_nothing_though_they_come_with_200(body: bytes) -> None:
    assert not is_agreed(body)
