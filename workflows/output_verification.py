"""Settles whether a run's output is committed when a launch left no readable result.

As with a launch, nothing is held in the meantime: a signal says that the verifying Job ended, and a timer bounds the wait.
"""

from datetime import timedelta

from temporalio import workflow

from inferrun.reasons import Reason
from inferrun.runner_report import OutputState
from inferrun.text import code_span
from workflows import activity_options
from workflows.activity_execution import execute_locally, wait_until
from workflows.launch_signals import LaunchSignals
from workflows.messages import Verdict, VerdictKind, VerifyResult
from workflows.run_state import RunState

TIME_LIMIT = 330
"""Seconds that a verification may take: its Job's own limit of 300 s, and time to hear of its end."""


async def verify_output(state: RunState, signals: LaunchSignals, verdict: Verdict, *, is_final: bool) -> Verdict:
    """The verdict on a launch, given what the store says about the run's output; unchanged if the run no longer exists."""
    request = state.verify_input(because=verdict.message, is_final=is_final)
    until = workflow.now() + timedelta(seconds=TIME_LIMIT)
    while True:
        summary = f"verify the output of launch {request.launch}"
        summary = "give up the verification" if request.must_conclude else summary
        result = await execute_locally(activity_options.VERIFY, request, VerifyResult, summary=summary)
        if result.finding is not None or result.gone or request.must_conclude:
            break
        workflow.set_current_details(f"**Pending** ({Reason.VERIFYING}): {code_span(verdict.message)}")
        is_signalled = await wait_until(
            lambda: signals.take_ended(result.job_uid) is not None,  # noqa: B023 -- awaited in this turn
            seconds=(until - workflow.now()).total_seconds(),
            summary="verification of the output",
        )
        request = request.model_copy(update={"job_uid": result.job_uid, "must_conclude": not is_signalled})
    finding = result.finding
    if finding is None:
        return verdict
    if finding.state is not OutputState.COMMITTED:
        is_unknown = finding.state is OutputState.UNKNOWN
        found = f"it is unknown whether the output was stored: {finding.message}"
        found = found if is_unknown else "the output is not committed"
        return verdict.model_copy(update={"message": f"{verdict.message}; {found}"})
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
