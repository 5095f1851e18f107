"""The termination message and the errors it reports."""

from pathlib import Path

import pytest

from inferrun.exitcodes import ExitCode
from inferrun.plugins import (
    ContractError,
    Counts,
    InferenceError,
    InputError,
    OutputError,
    RunnerError,
    TokenUsage,
)
from inferrun.reasons import Reason
from inferrun.runner_report import SIZES, RunnerResult, parse_report
from inferrun_runner.errors import DeadlineReached, Stopped, TooManyErrors, first_error
from inferrun_runner.program.termination_message import failure, write_result

CODES = {
    ContractError: (ExitCode.CONTRACT, Reason.INVALID_CONTRACT),
    InputError: (ExitCode.INPUT, Reason.INPUT_FAILED),
    InferenceError: (ExitCode.INFERENCE, Reason.INFERENCE_FAILED),
    OutputError: (ExitCode.OUTPUT, Reason.OUTPUT_FAILED),
    DeadlineReached: (ExitCode.DEADLINE, Reason.DEADLINE_EXCEEDED),
    Stopped: (ExitCode.STOPPED, Reason.STOPPED),
    RunnerError: (ExitCode.INTERNAL, Reason.RUNNER_ERROR),
}
USAGE = TokenUsage(prompt_tokens=2, completion_tokens=1, total_tokens=3)


@pytest.mark.parametrize(
    ("error", "code", "reason"), [(error, *both) for error, both in CODES.items()]
)
def test_every_error_has_its_exit_code_and_reason(
    error: type[RunnerError], code: ExitCode, reason: Reason, tmp_path: Path
) -> None:
    assert error.code is code
    write_result(
        failure(error("the problem"), Counts(total=5, completed=3, usage=USAGE)), tmp_path / "log"
    )
    result = parse_report(RunnerResult, (tmp_path / "log").read_text())
    assert result
    assert (result.reason, result.message, result.records.completed) == (reason, "the problem", 3)
    assert result.usage == USAGE


def test_a_result_says_whether_another_attempt_could_succeed() -> None:
    assert failure(InputError("the disk failed"), None).retryable
    assert not failure(InputError("line 5 is not valid JSON", is_retryable=False), None).retryable


def test_of_an_unexpected_error_only_the_type_is_reported() -> None:
    result = failure(KeyError("token-123"), None)
    assert result.reason is Reason.RUNNER_ERROR
    assert result.message == "internal error: KeyError; see the traceback in the Pod's log"


@pytest.mark.parametrize("character", ["x", "\x00", '"', "\\", "é", "漢", "🙂", "\n"])
def test_a_result_fits_whatever_the_error_contains(character: str, tmp_path: Path) -> None:
    write_result(failure(InputError(f"begin {character * 100_000}"), None), tmp_path / "log")
    text = (tmp_path / "log").read_bytes()
    assert len(text) <= SIZES.whole
    result = parse_report(RunnerResult, text.decode())
    assert result
    assert result.message.startswith("begin")
    assert "\n" not in result.message


def test_a_runner_error_is_selected_from_a_group() -> None:
    group = ExceptionGroup("tasks", [ValueError("a"), ExceptionGroup("inner", [OutputError("b")])])
    assert str(first_error(group)) == "b"
    assert str(first_error(ExceptionGroup("tasks", [ValueError("a"), KeyError("b")]))) == "a"
    assert str(first_error(InputError("c"))) == "c"


def test_an_error_that_another_attempt_would_meet_again_is_selected_first() -> None:
    group = ExceptionGroup(
        "tasks", [OutputError("the server is busy"), TooManyErrors("6 of 100 records failed")]
    )
    assert str(first_error(group)) == "6 of 100 records failed"
