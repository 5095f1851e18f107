"""The state of one run's workflow: its progress, its current Job and its clocks, and the messages made from them.

Pure: the current time is always a parameter. All times are by the clock of the API server; of the workflow's own clock, which is
Temporal's, only durations are used. Only this class changes the state; the workflow decides when.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.resources.status import ATTEMPTS_LIMIT, LOG_LIMIT
from inferrun.text import one_line
from inferrun.timestamps import parse, rfc3339
from workflows.messages import (
    SIGNALLED_LIFECYCLE,
    FollowInput,
    FollowUntil,
    LaunchInput,
    LaunchReport,
    LaunchResult,
    LaunchState,
    RecordInput,
    RunInput,
    SpecChanged,
    StopInput,
    Verdict,
    VerdictKind,
    VerifyInput,
    Woken,
)
from workflows.run_clock import pending_seconds_left, running_seconds_left, seconds_between, spread_seconds

ATTEMPT_MESSAGE_LIMIT = 256
"""Characters of a message in the list of attempts, which the workflow carries along."""


DISRUPTIONS = (Reason.DISRUPTED, Reason.NODE_LOST)
"""Reasons of listed launches and Pods that count towards maxDisruptions."""


class RunState:
    """Created from the workflow's input; `continued` is the input of the next execution."""

    def __init__(self, given: RunInput) -> None:
        self.run = given.ref
        self.lifecycle = given.lifecycle
        self._submitter = given.submitter
        self.progress = given.progress
        self.job = given.following
        self.started_at = given.following.started_at if given.following is not None else None
        self.pod_uid = given.pod_uid
        self._following = given.following
        self.signal_count = 0
        self.edit_count = 0
        self._has_tried = False
        self._wakes: list[Woken | None] = []
        self.disruptions = given.disruptions
        self.unverified_launch = given.unverified_launch
        self._pending_since = given.pending_since
        self._edited_timeout: int | None = None
        self._edited_suspend: bool | None = None
        self._clock_ahead = timedelta()
        """By how much Temporal's clock is ahead of the API server's."""

    def set_clock(self, cluster_time: datetime | None, *, asked: datetime, now: datetime) -> None:
        """Take note of what the API server's clock said (None: unknown) at a moment between `asked` and `now` by Temporal's. These
        may be far apart, as after an outage of the workers: what is known changes only as far as it contradicts them.
        """
        if cluster_time is not None:
            self._clock_ahead = min(max(self._clock_ahead, asked - cluster_time), now - cluster_time)

    def cluster_time(self, now: datetime) -> datetime:
        """What the API server's clock says when Temporal's says `now`."""
        return now - self._clock_ahead

    def take_following(self) -> LaunchResult | None:
        """The launch that was under way when the workflow continued as new, once."""
        following, self._following = self._following, None
        return following

    def continued(self, *, following: LaunchResult | None = None) -> RunInput:
        """The input with which the workflow continues as new. The launch that is `following` is inspected first: signals
        about it may have been received and not dealt with.
        """
        if following is not None:
            changes = {"timeout_seconds": self.timeout_seconds, "is_suspended": self.is_suspended}
            following = following.model_copy(update={**changes, "started_at": self.started_at, "is_adopted": True})
        return RunInput.model_validate(
            {
                **self.run.model_dump(),
                **self.progress.model_dump(),
                "lifecycle": self.lifecycle,
                "submitter": self._submitter,
                "pending_since": self._pending_since,
                "disruptions": self.disruptions,
                "unverified_launch": self.unverified_launch,
                "following": following,
                "pod_uid": self.pod_uid if following is not None else "",
            }
        )

    def look_again(self, woken: Woken | None = None) -> None:
        """Something that the run waits for may have changed; None: nothing is known of what has."""
        self._wakes = [*self._wakes[-1:], woken]
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
        wakes, self._wakes = self._wakes, []
        woken = wakes[0] if len(wakes) == 1 else None  # of several causes, none covers the others
        is_repeated, self._has_tried = self._has_tried, True
        given = {"snapshot": snapshot, "is_repeated": is_repeated, "woken": woken}
        return LaunchInput.model_validate({"run": self.run, **self.progress.model_dump(), **given})

    def accept_launch(self, launched: LaunchResult) -> None:
        """Remember the Job of a launch, and the progress that the activity found if another workflow began the run."""
        if launched.job_name:
            self.job = launched
        if launched.state is LaunchState.LAUNCHED:
            self.started_at, self.pod_uid = launched.started_at, ""
        if launched.state in (LaunchState.LAUNCHED, LaunchState.SUSPENDED) or self._is_recovered_by(launched):
            if launched.attempts != self.progress.attempts:  # of a workflow that was lost with what it knew
                self.unverified_launch = _last_that_may_run_on(launched.attempts)
                self.disruptions = sum(item.reason in DISRUPTIONS for item in launched.attempts)
            self.progress = launched.progress

    def _is_recovered_by(self, launched: LaunchResult) -> bool:
        """Whether the activity found progress that this workflow does not know. Without a Job, earlier versions return none."""
        known = self.progress
        return launched.launch > known.launch or (bool(launched.attempts) and not known.attempts)

    def finish_launch(self, verdict: Verdict, *, now: datetime) -> Verdict:
        """Add the launch's seconds to the run's clock; returns the verdict with the times that it lacked."""
        started = verdict.started_at or self.started_at
        if started is None:
            return verdict
        finished = verdict.finished_at or rfc3339(now)
        self._end_running(started, finished)
        return verdict.model_copy(update={"started_at": started, "finished_at": finished})

    def lose_pod(self, *, is_disrupted: bool, now: datetime) -> None:
        """The Pod is gone and the Job replaces it: the run's clock stops and the run waits again."""
        if self.started_at is not None:
            self._end_running(self.started_at, rfc3339(now))
        self.wait_since(rfc3339(now))
        if is_disrupted:
            self.disruptions += 1

    def count_commits(self, verdict: Verdict) -> None:
        """Start counting attempts anew if this one committed records: as long as a run progresses, its retries are not used up."""
        records = verdict.records
        if records is None or self.lifecycle < SIGNALLED_LIFECYCLE:
            return
        committed = records.completed + records.failed
        if committed > self.progress.committed:
            update = {"committed": committed, "uncounted": self.progress.attempt - 1}
            self.progress = self.progress.model_copy(update=update)

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
            message=one_line(verdict.message, limit=ATTEMPT_MESSAGE_LIMIT),
            pod_name=verdict.pod_name or None,
            node_name=verdict.node_name or None,
            log=verdict.log[:LOG_LIMIT] or None,
        )
        if verdict.kind is VerdictKind.NEVER_RAN and self.progress.waits:
            self._forget_wait()
        self._list(attempt)

    def list_cancelled(self, launched: LaunchResult, report: LaunchReport, *, now: datetime) -> None:
        """List the launch that was stopped because the run was cancelled, unless it had ended and is listed already."""
        if any(item.launch == self.progress.launch and not item.replaced for item in self.progress.attempts):
            return
        if launched.launch != self.progress.launch:
            return  # the next launch has no Job yet
        end = report.verdict
        if end is None or end.kind is VerdictKind.JOB_GONE:  # the stop itself has deleted the Job
            seen = end or Verdict(kind=VerdictKind.FAILED, reason=Reason.CANCELLED, message="")
            started = seen.started_at or report.started_at or self.started_at
            update: dict[str, object] = {
                "kind": VerdictKind.FAILED,
                "message": "the run was cancelled",
                "started_at": started,
                "finished_at": seen.finished_at or (rfc3339(now) if started else None),
                "pod_name": seen.pod_name or report.pod_name,
                "node_name": seen.node_name or report.node_name,
            }
            end = seen.model_copy(update=update)
        succeeded = end.kind is VerdictKind.SUCCEEDED
        self.add_attempt(launched, end, end.reason if succeeded else Reason.CANCELLED)

    def _forget_wait(self) -> None:
        """One entry covers all launches that ended while their Pods waited."""
        *earlier, last = self.progress.attempts
        if last.start_time is None and not last.replaced:
            self.progress = self.progress.model_copy(update={"attempts": tuple(earlier)})

    def add_replaced_pod(self, launched: LaunchResult, report: LaunchReport, *, lost_at: str) -> None:
        """List a Pod that its Job replaces; the launch continues."""
        attempt = Attempt(
            launch=self.progress.launch,
            attempt=self.progress.attempt,
            replaced=True,
            job_name=launched.job_name,
            pod_name=report.pod_name or None,
            node_name=report.node_name or None,
            start_time=parse(report.started_at) if report.started_at else None,
            completion_time=parse(lost_at),
            exit_code=report.exit_code,
            reason=report.loss_reason,
            message=one_line(report.loss_message, limit=ATTEMPT_MESSAGE_LIMIT) or None,
        )
        self._list(attempt)

    def _list(self, attempt: Attempt) -> None:
        attempts = (*self.progress.attempts, attempt)[-ATTEMPTS_LIMIT:]
        self.progress = self.progress.model_copy(update={"attempts": attempts})

    def must_verify(self, verdict: Verdict, *, is_final: bool) -> bool:
        """Whether the store must be asked before the verdict is final.

        A launch that left no readable result may also commit late, if its node was lost: the end of the run is final
        only after that has been ruled out.
        """
        if verdict.is_unclear:
            self.unverified_launch = self.progress.launch
        is_resumed = verdict.kind is VerdictKind.SUSPENDED and not self.is_suspended
        # There is no attempt to judge, and the next launch, which follows at once, finds what is committed.
        is_followed = verdict.kind.is_disruption or is_resumed
        return (verdict.is_unclear and not is_followed) or (is_final and self.unverified_launch > 0)

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

    def next_launch(self, *, is_counted: bool, has_waited: bool = False) -> None:
        """Advance to the next launch, which is a new attempt if it is counted. `has_waited`: the last one never ran."""
        attempt = self.progress.attempt + (1 if is_counted else 0)
        waits = self.progress.waits + 1 if has_waited else 0
        changes = {"launch": self.progress.launch + 1, "attempt": attempt, "waits": waits}
        self.progress = self.progress.model_copy(update=changes)

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
        """Seconds left until the clock of pendingTimeoutSeconds expires, None without a limit."""
        limit = launched.pending_timeout_seconds
        left = pending_seconds_left(limit, since=self.pending_since(launched), now=now)
        return None if left is None else left + self._spread(limit)

    def expires_in(self, launched: LaunchResult, *, now: datetime) -> float | None:
        """Seconds until the clock that counts for the launch expires, None without a limit."""
        if self.started_at is None:
            return self.pending_seconds_left(launched, now=now)
        left = self.running_seconds_left(now=now)
        return None if left is None else left + self._spread(self.timeout_seconds)

    def _spread(self, limit: int) -> float:
        return spread_seconds(limit, uid=self.run.uid) if self.lifecycle >= SIGNALLED_LIFECYCLE else 0.0

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
        held_job = self.job if verdict.is_held_open else None
        only_job = self.job if self.progress.launch == 1 and not self.unverified_launch else None
        return RecordInput(
            run=self.run,
            phase=phase,
            reason=reason,
            message=verdict.message,
            attempt=self.progress.attempt,
            attempts=self.progress.attempts,
            exit_code=verdict.exit_code,
            records=verdict.records,
            usage=verdict.usage,
            delivery=verdict.delivery,
            output=verdict.output,
            started_at=self._first_start(),
            finished_at=verdict.finished_at,
            snapshot=self.job.snapshot if self.job else "",
            only_job_name=only_job.job_name if only_job else "",
            only_job_uid=only_job.job_uid if only_job else "",
            held_job_name=held_job.job_name if held_job else "",
            held_job_uid=held_job.job_uid if held_job else "",
            submitter=self._submitter,
        )

    def failure(self, reason: Reason, message: str) -> RecordInput:
        """An outcome that does not follow from a launch."""
        verdict = Verdict(kind=VerdictKind.FAILED, reason=reason, message=message)
        return self.outcome(verdict, Phase.FAILED, reason)

    def _first_start(self) -> str | None:
        first = self.progress.first_started_at or self.started_at
        if first is not None:
            return first
        started = next((item.start_time for item in self.progress.attempts if item.start_time is not None), None)
        return rfc3339(started) if started is not None else None

    def _end_running(self, started: str, finished: str) -> None:
        """Add the seconds of a container to the run's clock."""
        used = self.progress.seconds_used + seconds_between(started, finished)
        first = self.progress.first_started_at or started
        self.progress = self.progress.model_copy(update={"seconds_used": used, "first_started_at": first})
        self.started_at = None


def _last_that_may_run_on(attempts: Sequence[Attempt]) -> int:
    """The latest launch whose Pod may still be running somewhere, although it is gone from the cluster; 0 if none."""
    return max((item.launch for item in attempts if _may_run_on(item)), default=0)


def _may_run_on(item: Attempt) -> bool:
    """A launch is fenced off if its node does not respond, also when it is stopped because the run was suspended."""
    is_stopped = item.reason == Reason.SUSPENDED and item.start_time is not None
    return is_stopped or item.reason in (Reason.POD_LOST, Reason.JOB_DELETED, Reason.NODE_LOST)
