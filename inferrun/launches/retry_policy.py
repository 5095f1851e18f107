"""Decides what follows from the end of a launch: success, failure or another launch. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from inferrun.backoff import Backoff
from inferrun.launches.run_clock import is_expired
from inferrun.launches.verdict import Produced, Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import OutputFinding, OutputState

BACKOFF = Backoff(10, 360)
"""The pauses between two attempts, as in the Kubernetes Job controller."""

RELAUNCH_DELAY = 5
"""Seconds before a launch that does not count as an attempt."""

NO_ATTEMPTS = (VerdictKind.NEVER_RAN, VerdictKind.SUSPENDED, VerdictKind.OUT_OF_TIME)
"""Ends, besides disruptions, after which another launch does not count."""


class StepKind(StrEnum):
    """What a run does next."""

    SUCCEED = "Succeed"
    FAIL = "Fail"
    LAUNCH = "Launch"


@dataclass(frozen=True)
class RunStep:
    """The next step of a run; `delay` is in seconds, `counted` says whether the next launch is a
    new attempt."""

    kind: StepKind
    reason: Reason
    message: str
    delay: int = 0
    counted: bool = False

    def pause_text(self, *, attempt: int, of: int) -> str:
        """What a status says until that attempt starts; `of` is the number of attempts."""
        return f"attempt {attempt} of {of} starts in {self.delay} s; the last launch ended with: {self.message}"


def next_step(
    verdict: Verdict, *, attempt: int, backoff_limit: int, seconds_left: float | None
) -> RunStep:
    """The step after attempt number `attempt` (from 1); `seconds_left` on the run's clock, None
    without a limit."""
    if verdict.kind is VerdictKind.SUCCEEDED:
        return RunStep(StepKind.SUCCEED, verdict.reason, verdict.message)
    is_time_up, text = is_expired(seconds_left), verdict.message
    is_out_of_time = verdict.kind is VerdictKind.OUT_OF_TIME
    if verdict.kind.is_disruption or verdict.kind in NO_ATTEMPTS:
        if is_time_up and (verdict.kind.is_disruption or is_out_of_time):
            text = text if is_out_of_time else f"no time is left for another launch; {text}"
            return RunStep(StepKind.FAIL, Reason.DEADLINE_EXCEEDED, text)
        text = f"{text}, but the run has time left" if is_out_of_time else text
        delay = 0 if verdict.kind is VerdictKind.SUSPENDED else RELAUNCH_DELAY
        return RunStep(StepKind.LAUNCH, verdict.reason, text, delay=delay)
    if not verdict.may_retry or attempt > backoff_limit:
        return RunStep(StepKind.FAIL, verdict.reason, verdict.message)
    if is_time_up:
        message = f"no time is left for another attempt; the last one ended with: {verdict.message}"
        return RunStep(StepKind.FAIL, Reason.DEADLINE_EXCEEDED, message)
    delay = int(BACKOFF.after(attempt))
    return RunStep(StepKind.LAUNCH, verdict.reason, verdict.message, delay=delay, counted=True)


def success_of(verdict: Verdict | None) -> Verdict | None:
    """The verdict if it is a success, else None: a launch that had succeeded before it was stopped
    has succeeded."""
    return verdict if verdict is not None and verdict.kind is VerdictKind.SUCCEEDED else None


def concluded(verdict: Verdict, finding: OutputFinding) -> Verdict:
    """The verdict on a launch that left its outcome open, after the store was asked."""
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
            **Produced.fields_of(finding),
        }
    )


def check_disruptions(count: int, *, limit: int, ended: Verdict | None = None) -> Verdict | None:
    """The verdict on a launch whose Pods were removed, rejected or lost more than `limit` times,
    with what is known of how it `ended`: it may have committed. None up to the limit.
    """
    if count <= limit:
        return None
    message = (
        f"the Pods were removed, rejected or lost {count} times, more than maxDisruptions ({limit})"
    )
    failed = Verdict(
        kind=VerdictKind.FAILED, reason=Reason.DISRUPTED_TOO_OFTEN, message=message, may_retry=False
    )
    return (
        failed if ended is None else ended.model_copy(update=failed.model_dump(exclude_unset=True))
    )
