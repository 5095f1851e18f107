"""The state of one run's workflow: its progress, its current Job and its clocks, and the messages made from them.

Pure: the current time is always a parameter. Only this class changes the state; the workflow decides when.
"""

from datetime import datetime

from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.timestamps import parse, rfc3339
from workflows.messages import (
    FollowInput,
    FollowUntil,
    LaunchInput,
    LaunchResult,
    LaunchState,
    RecordInput,
    RunInput,
    SpecChanged,
    StopInput,
    Verdict,
    VerdictKind,
    VerifyInput,
)
from workflows.run_clock import pending_seconds_left, running_seconds_left, seconds_between

ATTEMPT_MESSAGE_LIMIT = 256
"""Characters of a message in the list of attempts, which the workflow carries along."""


class RunState:
    """Created from the workflow's input; `continued` is the input of the next execution."""

    def __init__(self, given: RunInput) -> None:
        self.run = given.ref
        self.lifecycle = given.lifecycle
        self.progress = given.progress
        self.job: LaunchResult | None = None
        self.started_at: str | None = None
        self.signal_count = 0
        self.edit_count = 0
        self.disruptions = given.disruptions
        self.unverified_launch = given.unverified_launch
        self._pending_since = given.pending_since
        self._edited_timeout: int | None = None
        self._edited_suspend: bool | None = None

    def continued(self) -> RunInput:
        """The input with which the workflow continues as new; only a run without a Job does so."""
        return RunInput.model_validate(
            {
                **self.run.model_dump(),
                **self.progress.model_dump(),
                "lifecycle": self.lifecycle,
                "pending_since": self._pending_since,
                "disruptions": self.disruptions,
                "unverified_launch": self.unverified_launch,
            }
        )

    def look_again(self) -> None:
        """Something that the run waits for may have changed."""
        self.edit_count += 1
        self.signal_count += 1

    def edit_spec(self, change: SpecChanged) -> None:
        """The spec was edited while the run is in progress."""
        self._edited_timeout = change.timeout_seconds
        self._edited_suspend = change.suspend
        self.look_again()

    @property
    def timeout_seconds(self) -> int:
        """timeoutSeconds as the spec has it now, 0 for no limit: what the launch read, or a later edit."""
        if self._edited_timeout is not None:
            return self._edited_timeout
        return self.job.timeout_seconds if self.job else 0

    @property
    def is_suspended(self) -> bool:
        """Whether the spec as it is now suspends the run: what the launch read, or a later edit."""
        if self._edited_suspend is not None:
            return self._edited_suspend
        return self.job.is_suspended if self.job else False

    def begin_launch(self) -> LaunchInput:
        """The input of the next launch. The activity reads the spec, so earlier edits need not be remembered."""
        self._edited_timeout = None
        self._edited_suspend = None
        snapshot = self.job.snapshot if self.job else ""
        return LaunchInput.model_validate({"run": self.run, **self.progress.model_dump(), "snapshot": snapshot})

    def accept_launch(self, launched: LaunchResult) -> None:
        """Remember the Job of a launch, and the progress that the activity found if another workflow began the run."""
        if launched.job_name:
            self.job = launched
        if launched.state is LaunchState.LAUNCHED:
            self.started_at = None
        if launched.state in (LaunchState.LAUNCHED, LaunchState.SUSPENDED):
            self.progress = launched.progress

    def finish_launch(self, verdict: Verdict, *, now: datetime) -> Verdict:
        """Add the launch's seconds to the run's clock; returns the verdict with the times that it lacked."""
        started = verdict.started_at or self.started_at
        if started is None:
            return verdict
        finished = verdict.finished_at or rfc3339(now)
        self._add_seconds(seconds_between(started, finished))
        self.started_at = None
        return verdict.model_copy(update={"started_at": started, "finished_at": finished})

    def lose_pod(self, *, is_disrupted: bool, now: datetime) -> None:
        """The Pod is gone and the Job replaces it: the run's clock stops and the run waits again."""
        if self.started_at is not None:
            self._add_seconds(seconds_between(self.started_at, rfc3339(now)))
            self.started_at = None
        self.wait_since(rfc3339(now))
        if is_disrupted:
            self.disruptions += 1

    def add_attempt(self, launched: LaunchResult, verdict: Verdict, reason: Reason) -> None:
        """List a launch that ended; only the latest ones are kept."""
        attempt = Attempt(
            launch=self.progress.launch,
            attempt=self.progress.attempt,
            job_name=launched.job_name,
            start_time=parse(verdict.started_at) if verdict.started_at else None,
            completion_time=parse(verdict.finished_at) if verdict.finished_at else None,
            exit_code=verdict.exit_code,
            reason=reason,
            message=verdict.message[:ATTEMPT_MESSAGE_LIMIT],
        )
        attempts = (*self.progress.attempts, attempt)[-ATTEMPTS_LIMIT:]
        self.progress = self.progress.model_copy(update={"attempts": attempts})

    def must_verify(self, verdict: Verdict, *, is_final: bool) -> bool:
        """Whether the store must be asked before the verdict stands.

        A launch that left no readable result may also commit late, if its node was lost: the end of the run is final
        only after that has been ruled out.
        """
        if verdict.is_unclear:
            self.unverified_launch = self.progress.launch
        return verdict.is_unclear or (is_final and self.unverified_launch > 0)

    def verify_input(self, *, because: str, is_final: bool) -> VerifyInput:
        """Find out about the output of the latest launch that left no readable result."""
        return VerifyInput(
            run=self.run,
            job_name=self.job.job_name if self.job else "",
            launch=self.unverified_launch,
            attempt=self.progress.attempt,
            attempts=self.progress.attempts,
            snapshot=self.job.snapshot if self.job else "",
            because=because,
            is_final=is_final,
        )

    def next_launch(self, *, is_counted: bool) -> None:
        """Advance to the next launch, which is a new attempt if it is counted."""
        attempt = self.progress.attempt + (1 if is_counted else 0)
        self.progress = self.progress.model_copy(update={"launch": self.progress.launch + 1, "attempt": attempt})

    def wait_since(self, since: str) -> None:
        """The time from which pendingTimeoutSeconds counts."""
        self._pending_since = since

    def pending_since(self, launched: LaunchResult) -> str:
        """When the run began to wait; a launch that never ran does not restart this."""
        return self._pending_since or launched.pending_since

    def running_seconds_left(self, *, now: datetime) -> float | None:
        """Seconds left of timeoutSeconds, None without a limit."""
        used = self.progress.seconds_used
        return running_seconds_left(self.timeout_seconds, used=used, started_at=self.started_at, now=now)

    def pending_seconds_left(self, launched: LaunchResult, *, now: datetime) -> float | None:
        """Seconds left of pendingTimeoutSeconds, None without a limit."""
        return pending_seconds_left(launched.pending_timeout_seconds, since=self.pending_since(launched), now=now)

    def follow_input(self, launched: LaunchResult, until: FollowUntil) -> FollowInput:
        """Follow the Job of a launch."""
        return FollowInput(
            run=self.run,
            job_name=launched.job_name,
            job_uid=launched.job_uid,
            launch=self.progress.launch,
            attempt=self.progress.attempt,
            until=until,
        )

    def stop_input(self, launched: LaunchResult, *, grace: int, only_if_waiting: bool = False) -> StopInput:
        """Stop the Job of a launch."""
        return StopInput(
            run=self.run,
            job_name=launched.job_name,
            job_uid=launched.job_uid,
            grace_seconds=grace,
            only_if_waiting=only_if_waiting,
        )

    def outcome(self, verdict: Verdict, phase: Phase, reason: Reason) -> RecordInput:
        """The outcome that follows from the verdict on the last launch."""
        return RecordInput(
            run=self.run,
            phase=phase,
            reason=reason,
            message=verdict.message,
            attempt=self.progress.attempt,
            attempts=self.progress.attempts,
            exit_code=verdict.exit_code,
            records=verdict.records,
            delivery=verdict.delivery,
            output=verdict.output,
            started_at=self._first_start(),
            finished_at=verdict.finished_at,
            snapshot=self.job.snapshot if self.job else "",
        )

    def failure(self, reason: Reason, message: str) -> RecordInput:
        """An outcome that does not follow from a launch."""
        verdict = Verdict(kind=VerdictKind.FAILED, reason=reason, message=message)
        return self.outcome(verdict, Phase.FAILED, reason)

    def _first_start(self) -> str | None:
        attempts = self.progress.attempts
        if not attempts:
            return self.started_at
        first = attempts[0].start_time
        return rfc3339(first) if first else None

    def _add_seconds(self, seconds: float) -> None:
        used = self.progress.seconds_used + seconds
        self.progress = self.progress.model_copy(update={"seconds_used": used})
