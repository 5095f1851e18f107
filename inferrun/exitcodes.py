"""Exit codes of a runner and what they mean; part of the API, shared with runner images that are not ours."""

from enum import IntEnum

from inferrun.reasons import Reason


class ExitCode(IntEnum):
    """How a runner's process ended. 0 and 2 to 5 are the Krateo controller's, the others ours."""

    DONE = 0
    INTERNAL = 1
    CONTRACT = 2
    INPUT = 3
    INFERENCE = 4
    OUTPUT = 5
    DEADLINE = 6
    STOPPED = 143


_REASONS = {
    ExitCode.DONE: Reason.SUCCEEDED,
    ExitCode.INTERNAL: Reason.RUNNER_ERROR,
    ExitCode.CONTRACT: Reason.INVALID_CONTRACT,
    ExitCode.INPUT: Reason.INPUT_FAILED,
    ExitCode.INFERENCE: Reason.INFERENCE_FAILED,
    ExitCode.OUTPUT: Reason.OUTPUT_FAILED,
    ExitCode.DEADLINE: Reason.DEADLINE_EXCEEDED,
    ExitCode.STOPPED: Reason.STOPPED,
}

_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.INTERNAL: "an internal error of the runner",
    ExitCode.CONTRACT: "the contract is not valid",
    ExitCode.INPUT: "the input could not be read",
    ExitCode.INFERENCE: "the model server did not predict",
    ExitCode.OUTPUT: "the predictions could not be stored",
    ExitCode.DEADLINE: "the deadline was reached",
    ExitCode.STOPPED: "it was told to stop (SIGTERM)",
}


def reason_of(code: int) -> Reason:
    """The reason that stands for an exit code; an unknown code is `RunnerFailed`."""
    return _REASONS.get(ExitCode(code), Reason.RUNNER_FAILED) if code in _KNOWN else Reason.RUNNER_FAILED


def meaning_of(code: int) -> str:
    """An exit code in words, as the field's tools write them: `4 (the model server did not predict)`."""
    if code in _KNOWN:
        return f"{code} ({_MEANINGS[ExitCode(code)]})"
    if code == 137:
        return "137 (killed, SIGKILL)"
    if 128 < code < 160:
        return f"{code} (ended by signal {code - 128})"
    return f"{code} (not one of the documented codes)"


_KNOWN = frozenset(int(code) for code in ExitCode)
