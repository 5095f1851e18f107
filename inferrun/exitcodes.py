"""The exit codes of a runner and their meaning. They are part of the API and also used by custom
runner images."""

from enum import IntEnum

from inferrun.reasons import Reason


class ExitCode(IntEnum):
    """The exit code of a runner's process. Codes 0 and 2 to 5 are the Krateo controller's; the
    others are our own."""

    DONE = 0
    INTERNAL = 1
    CONTRACT = 2
    INPUT = 3
    INFERENCE = 4
    OUTPUT = 5
    DEADLINE = 6
    STOPPED = 143


_KNOWN: dict[int, tuple[Reason, str]] = {
    ExitCode.DONE: (Reason.SUCCEEDED, "done"),
    ExitCode.INTERNAL: (Reason.RUNNER_ERROR, "an internal error of the runner"),
    ExitCode.CONTRACT: (Reason.INVALID_CONTRACT, "the contract is invalid"),
    ExitCode.INPUT: (Reason.INPUT_FAILED, "the input could not be read"),
    ExitCode.INFERENCE: (Reason.INFERENCE_FAILED, "the model server did not predict"),
    ExitCode.OUTPUT: (Reason.OUTPUT_FAILED, "the predictions could not be stored"),
    ExitCode.DEADLINE: (Reason.DEADLINE_EXCEEDED, "the deadline was reached"),
    ExitCode.STOPPED: (Reason.STOPPED, "stopped by SIGTERM"),
}


def reason_of(code: int) -> Reason:
    """Return the reason for an exit code; `RunnerFailed` for an unknown code."""
    return _KNOWN[code][0] if code in _KNOWN else Reason.RUNNER_FAILED


def meaning_of(code: int) -> str:
    """Return an exit code with its meaning, for example `4 (the model server did not predict)`."""
    if code in _KNOWN:
        return f"{code} ({_KNOWN[code][1]})"
    if code == 137:
        return "137 (killed by SIGKILL)"
    if 128 < code < 160:
        return f"{code} (killed by signal {code - 128})"
    return f"{code} (undocumented exit code)"
