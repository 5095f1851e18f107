"""Settles whether a run's output is committed when a launch left no readable result.

As with a launch, nothing is held in the meantime: a signal says that the verifying Job ended, and a timer bounds the wait.
"""

from datetime import timedelta

from temporalio import workflow

from inferrun.reasons import Reason
from inferrun.runner_report import OutputFinding, OutputState
from inferrun.text import code_span
from workflows import activity_options
from workflows.activity_execution import execute_locally
from workflows.launch_signals import LaunchSignals
from workflows.messages import Verdict, VerdictKind, VerifyInput, VerifyResult
from workflows.run_state import RunState

TIME_LIMIT = 330
"""Seconds that a verification may take: its Job's own limit of 300 s, and time to hear of its end."""


async def find_output(state: RunState, signals: LaunchSignals, *, because: str, is_final: bool) -> OutputFinding | None:
    """What the store says about the run's output; None if the run no longer exists."""
    request = state.verify_input(because=because, is_final=is_final)
    until = workflow.now() + timedelta(seconds=TIME_LIMIT)
    while True:
        result = await _verify(request)
        if result.finding is not None or result.gone or request.must_conclude:
            return result.finding
        workflow.set_current_details(f"**Pending** ({Reason.VERIFYING}): {code_span(because)}")
        is_signalled = await _wait_for_end(signals, result.job_uid, seconds=(until - workflow.now()).total_seconds())
        request = request.model_copy(update={"job_uid": result.job_uid, "must_conclude": not is_signalled})


def verdict_with(finding: OutputFinding | None, verdict: Verdict) -> Verdict:
    """The verdict on a launch, given what was found."""
    if finding is None:
        return verdict
    if finding.state is OutputState.COMMITTED:
        return verdict.model_copy(
            update={
                "kind": VerdictKind.SUCCEEDED,
                "reason": Reason.SUCCEEDED,
                "message": f"{finding.message}; the output is committed, although its Pod left no result",
                "exit_code": None,
                "records": finding.records,
                "usage": finding.usage,
                "delivery": finding.delivery,
                "output": finding.output,
            }
        )
    found = "the output is not committed"
    if finding.state is OutputState.UNKNOWN:
        found = f"it is unknown whether the output was stored: {finding.message}"
    return verdict.model_copy(update={"message": f"{verdict.message}; {found}"})


async def _verify(request: VerifyInput) -> VerifyResult:
    summary = "give up the verification" if request.must_conclude else f"verify the output of launch {request.launch}"
    return await execute_locally(activity_options.VERIFY, request, VerifyResult, summary=summary)


async def _wait_for_end(signals: LaunchSignals, job_uid: str, *, seconds: float) -> bool:
    """Wait for the signal that the Job ended; False if the time is up first."""
    if seconds <= 0:
        return False
    try:
        await workflow.wait_condition(
            lambda: signals.take_ended(job_uid) is not None,
            timeout=seconds,
            timeout_summary="verification of the output",
        )
    except TimeoutError:
        return False
    return True
