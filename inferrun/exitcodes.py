"""The exit codes of a runner and their meaning. They are part of the API and also used by custom runner images."""

from enum import IntEnum

from inferrun.reasons import Reason


class ExitCode(IntEnum):
    """The exit code of a runner's process. Codes 0 and 2 to 5 are the Krateo controller's; the others are our own."""

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
    ExitCode.CONTRACT: "the contract is invalid",
    ExitCode.INPUT: "the input could not be read",
    ExitCode.INFERENCE: "the model server did not predict",
    ExitCode.OUTPUT: "the predictions could not be stored",
    ExitCode.DEADLINE: "the deadline was reached",
    ExitCode.STOPPED: "stopped by SIGTERM",
}

_KNOWN = frozenset(int(code) for code in ExitCode)


def reason_of(code: int) -> Reason:
    """Return the reason for an exit code; `RunnerFailed` for an unknown code."""
    return _REASONS[ExitCode(code)] if code in _KNOWN else Reason.RUNNER_FAILED


def meaning_of(code: int) -> str:
    """Return an exit code with its meaning, for example `4 (the model server did not predict)`."""
    if code in _KNOWN:
        return f"{code} ({_MEANINGS[ExitCode(code)]})"
    if code == 137:
        return "137 (killed by SIGKILL)"
    if 128 < code < 160:
        return f"{code} (killed by signal {code - 128})"
    return f"{code} (undocumented exit code)"
