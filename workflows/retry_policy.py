"""What follows from how a launch ended: pure, so that every combination is tested without a server."""

from dataclasses import dataclass
from enum import StrEnum

from inferrun.reasons import Reason
from workflows.messages import MAX_ATTEMPTS_KEPT, AttemptRecord, Verdict, VerdictKind

FIRST_BACKOFF = 10
"""Seconds before the second attempt; doubled for each one after, as Kubernetes' Job does."""

MAX_BACKOFF = 360
"""Seconds between two attempts at most."""

RELAUNCH_DELAY = 5
"""Seconds before a launch that no attempt is counted for."""

CLOCK_TOLERANCE = 2.0
"""Seconds left that count as none: the kubelet tells times in whole seconds, and a runner may end itself a little early.
No less than the slack with which a launch is judged to have had its time, else such launches follow each other."""


class StepKind(StrEnum):
    """What a run does next."""

    SUCCEED = "Succeed"
    FAIL = "Fail"
    LAUNCH = "Launch"


@dataclass(frozen=True)
class Step:
    """The next step of a run; `delay` in seconds, `counted` says whether an attempt is used up."""

    kind: StepKind
    reason: Reason
    message: str
    delay: int = 0
    counted: bool = False


def next_step(verdict: Verdict, *, attempt: int, backoff_limit: int, seconds_left: float | None) -> Step:
    """Decide after launch number `attempt` (counted from 1); `seconds_left` of the run's clock, None without limit."""
    if verdict.kind is VerdictKind.SUCCEEDED:
        return Step(StepKind.SUCCEED, Reason.SUCCEEDED, verdict.message)
    if verdict.kind is VerdictKind.NEVER_RAN:
        return Step(StepKind.LAUNCH, verdict.reason, verdict.message, delay=RELAUNCH_DELAY)
    is_time_up = seconds_left is not None and seconds_left <= CLOCK_TOLERANCE
    if verdict.kind is VerdictKind.OUT_OF_TIME and not is_time_up:
        message = f"{verdict.message}, with time left for the run"
        return Step(StepKind.LAUNCH, verdict.reason, message, delay=RELAUNCH_DELAY)
    if verdict.kind is VerdictKind.OUT_OF_TIME:
        return Step(StepKind.FAIL, Reason.DEADLINE_EXCEEDED, verdict.message)
    return _after_failure(verdict, attempt=attempt, backoff_limit=backoff_limit, is_time_up=is_time_up)


def _after_failure(verdict: Verdict, *, attempt: int, backoff_limit: int, is_time_up: bool) -> Step:
    if not verdict.may_retry or attempt > backoff_limit:
        return Step(StepKind.FAIL, verdict.reason, verdict.message)
    if is_time_up:
        message = f"no time is left for another attempt; before: {verdict.message}"
        return Step(StepKind.FAIL, Reason.DEADLINE_EXCEEDED, message)
    return Step(StepKind.LAUNCH, verdict.reason, verdict.message, delay=backoff_after(attempt), counted=True)


def judge_disruptions(count: int, *, limit: int) -> Verdict | None:
    """The verdict on a run whose Pods were evicted or preempted more often than is borne; None up to that."""
    if count <= limit:
        return None
    message = f"its Pods were evicted or preempted {count} times, more than maxDisruptions {limit}"
    return Verdict(kind=VerdictKind.FAILED, reason=Reason.DISRUPTED_TOO_OFTEN, message=message, may_retry=False)


def backoff_after(attempt: int) -> int:
    """Seconds to wait after the failed attempt of that number, counted from 1."""
    return int(min(FIRST_BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF))


def add_attempt(attempts: tuple[AttemptRecord, ...], latest: AttemptRecord) -> tuple[AttemptRecord, ...]:
    """The list with the latest attempt, bounded."""
    return (*attempts, latest)[-MAX_ATTEMPTS_KEPT:]
