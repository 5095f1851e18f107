"""Exit codes with their reasons and meanings."""

import pytest

from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.reasons import Reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, Reason.SUCCEEDED),
        (1, Reason.RUNNER_ERROR),
        (2, Reason.INVALID_CONTRACT),
        (3, Reason.INPUT_FAILED),
        (4, Reason.INFERENCE_FAILED),
        (5, Reason.OUTPUT_FAILED),
        (6, Reason.DEADLINE_EXCEEDED),
        (143, Reason.STOPPED),
        (7, Reason.RUNNER_FAILED),
        (137, Reason.RUNNER_FAILED),
        (255, Reason.RUNNER_FAILED),
        (-1, Reason.RUNNER_FAILED),
    ],
)
def test_a_code_has_its_reason_and_an_unknown_code_is_runner_failed(
    code: int, reason: Reason
) -> None:
    assert reason_of(code) is reason


def test_every_documented_code_has_its_own_meaning() -> None:
    meanings = {meaning_of(code) for code in ExitCode}
    assert len(meanings) == len(ExitCode)
    assert not any("undocumented" in meaning for meaning in meanings)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4, "4 (the model server did not predict)"),
        (137, "137 (killed by SIGKILL)"),
        (139, "139 (killed by signal 11)"),
        (42, "42 (undocumented exit code)"),
    ],
)
def test_a_code_is_shown_with_its_meaning(code: int, words: str) -> None:
    assert meaning_of(code) == words
