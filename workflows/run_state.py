"""The state of one run's workflow: its progress, its current Job and its clocks, and the messages
made from them.

Pure: the current time is always a parameter. All times are by the clock of the API server; of the
workflow's own clock, which is Temporal's, only durations are used. Only this class changes the
state; the workflow decides when.
"""

from datetime import datetime, timedelta

from inferrun.launches.run_clock import seconds_between
from inferrun.launches.verdict import ATTEMPT_MESSAGE_LIMIT, Produced, Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.text import one_line
from inferrun.timestamps import parse, rfc3339
from workflows.messages import (
    BackfillProgress,
    LaunchInput,
    LaunchReport,
    LaunchResult,
    LaunchState,
    RecordInput,
    RunInput,
    SpecChanged,
    VerifyInput,
)
from workflows.signals import Ended

DISRUPTIONS = (Reason.DISRUPTED, Reason.NODE_LOST)
"""Reasons of listed launches and Pods that count towards maxDisruptions."""


class RunState:
    """Created from the workflow's input; `continued` is the input of the next execution."""

    def __init__(self, given: RunInput) -> None:
        self.run = given.ref
        self._submitter = given.submitter
        self.progress = given.progress
        self.job = given.following
        self.started_at = given.following.started_at if given.following is not None else None
        self.pod_uid = given.pod_uid
        self._following = given.following
        self.signal_count = 0
        self.edit_count = 0
        self.disruptions = given.disruptions
        self.unverified_launch = given.unverified_launch
        self.backfill = given.backfill
        self.waits_since = given.pending_since
        """The time from which pendingTimeoutSeconds counts; None: as the launch says."""
        self._edited: SpecChanged | None = None
        self._clock_ahead = timedelta()
        """The time by which Temporal's clock is ahead of the API server's."""

    def set_clock(self, cluster_time: datetime | None, *, asked: datetime, now: datetime) -> None:
        """Take note of what the API server's clock said (None: unknown) at a moment between `asked`
        and `now` by Temporal's. These may be far apart, as after an outage of the workers: what is
        known changes only as far as it contradicts them.
        """
        if cluster_time is not None:
            self._clock_ahead = min(
                max(self._clock_ahead, asked - cluster_time), now - cluster_time
            )

    def cluster_time(self, now: datetime) -> datetime:
        """What the API server's clock says when Temporal's says `now`."""
        return now - self._clock_ahead

    def take_following(self) -> LaunchResult | None:
        """The launch that was under way when the workflow continued as new, once."""
        following, self._following = self._following, None
        return following

    def continued(
        self, *, following: LaunchResult | None = None, ended: Ended | None = None
    ) -> RunInput:
        """The input with which the workflow continues as new. The launch that is `following` is
        inspected first: signals about it may have been received and not dealt with. How its Pods
        have `ended` is known from signals alone.
        """
        if following is not None:
            changes = {"timeout_seconds": self.timeout_seconds, "is_suspended": self.is_suspended}
            following = following.model_copy(
                update={**changes, "started_at": self.started_at, "is_adopted": True}
            )
        return RunInput(
            **dict(self.run),
            **dict(self.progress),
            submitter=self._submitter,
            pending_since=self.waits_since,
            disruptions=self.disruptions,
            unverified_launch=self.unverified_launch,
            following=following,
            pod_uid=self.pod_uid if following is not None else "",
            ended=ended,
            backfill=self.backfill,
        )

    def look_again(self) -> None:
        """Something that the run waits for may have changed."""
        self.edit_count += 1
        self.signal_count += 1

    def edit_spec(self, change: SpecChanged) -> None:
        self._edited = change
        self.look_again()

    @property
    def timeout_seconds(self) -> int:
        """timeoutSeconds as the spec has it now, 0 for no limit: what the launch read, or a later
        edit."""
        if self._edited is not None:
            return self._edited.timeout_seconds
        return self.job.timeout_seconds if self.job else 0

    @property
    def is_suspended(self) -> bool:
        """Whether the spec as it is now suspends the run: what the launch read, or a later edit."""
        if self._edited is not None:
            return self._edited.suspend
        return self.job.is_suspended if self.job else False

    def begin_launch(self) -> LaunchInput:
        """The input of the next launch. The activity reads the spec, so earlier edits need not be
        remembered."""
        self._edited = None
        snapshot = self.job.snapshot if self.job else ""
        return LaunchInput(run=self.run, snapshot=snapshot, **dict(self.progress))

    def accept_launch(self, launched: LaunchResult) -> None:
        """Remember the Job of a launch, and the progress that the activity found if another
        workflow began the run."""
        if launched.job_name:
            self.job = launched
        if launched.state is LaunchState.BACKFILL:
            self.backfill = self.backfill or BackfillProgress()
        if launched.state is LaunchState.LAUNCHED:
            self.started_at, self.pod_uid = launched.started_at, ""
        known = self.progress
        is_recovered = launched.launch > known.launch or (
            bool(launched.attempts) and not known.attempts
        )
        if is_recovered or launched.state in (LaunchState.LAUNCHED, LaunchState.SUSPENDED):
            # of a workflow that was lost with what it knew
            if launched.attempts != self.progress.attempts:
                # A launch is fenced off if its node does not respond, also when it is stopped
                # because the run was suspended: its Pod may still run somewhere, although it is
                # gone from the cluster.
                unseen = (Reason.POD_LOST, Reason.JOB_DELETED, Reason.NODE_LOST)
                stopped = [
                    one
                    for one in launched.attempts
                    if one.reason == Reason.SUSPENDED and one.start_time
                ]
                lost = [one for one in launched.attempts if one.reason in unseen]
                self.unverified_launch = max((one.launch for one in (*stopped, *lost)), default=0)
                self.disruptions = sum(item.reason in DISRUPTIONS for item in launched.attempts)
            self.progress = launched.progress

    def finish_launch(self, verdict: Verdict, *, now: datetime) -> Verdict:
        """Add the launch's seconds to the run's clock; returns the verdict with the times that it
        lacked.

        Attempts are counted anew if this one committed records: as long as a run progresses, its
        retries are not used up.
        """
        records = verdict.records
        if (
            records is not None
            and (committed := records.completed + records.failed) > self.progress.committed
        ):
            self._advance(committed=committed, uncounted=self.progress.attempt - 1)
        started = verdict.started_at or self.started_at
        if started is None:
            return verdict
        finished = verdict.finished_at or rfc3339(now)
        self._end_running(started, finished)
        return verdict.model_copy(update={"started_at": started, "finished_at": finished})

    def lose_pod(self, *, is_disrupted: bool, now: datetime) -> None:
        """The Pod is gone and the Job replaces it: the run's clock stops and the run waits
        again."""
        if self.started_at is not None:
            self._end_running(self.started_at, rfc3339(now))
        self.waits_since = rfc3339(now)
        if is_disrupted:
            self.disruptions += 1

    def add_attempt(self, launched: LaunchResult, verdict: Verdict, reason: Reason) -> None:
        """List a launch that ended; only the latest ones are kept."""
        attempt = verdict.listed(
            launch=self.progress.launch,
            attempt=self.progress.attempt,
            job_name=launched.job_name,
            reason=reason,
        )
        attempts = self.progress.attempts
        if verdict.kind is VerdictKind.NEVER_RAN and self.progress.waits:
            last = attempts[-1]  # one entry covers all launches that only waited
            attempts = attempts[:-1] if last.start_time is None and not last.replaced else attempts
        self._advance(attempts=(*attempts, attempt)[-ATTEMPTS_LIMIT:])

    def list_cancelled(
        self, launched: LaunchResult, report: LaunchReport, *, now: datetime
    ) -> None:
        """List the launch that was stopped because the run was cancelled, unless it had ended and
        is listed already."""
        if any(
            item.job_name == launched.job_name and not item.replaced
            for item in self.progress.attempts
        ):
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

    def add_replaced_pod(
        self, launched: LaunchResult, report: LaunchReport, *, lost_at: str
    ) -> None:
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
        self._advance(attempts=(*self.progress.attempts, attempt)[-ATTEMPTS_LIMIT:])

    def must_verify(self, verdict: Verdict, *, is_final: bool) -> bool:
        """Whether the store must be asked before the verdict is final.

        A launch that left no readable result may also commit late, if its node was lost: the end of
        the run is final only after that has been ruled out.
        """
        if verdict.is_unclear:
            self.unverified_launch = self.progress.launch
        is_resumed = verdict.kind is VerdictKind.SUSPENDED and not self.is_suspended
        # There is no attempt to judge, and the next launch, which follows at once, finds what is
        # committed.
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
        """Advance to the next launch, which is a new attempt if it is counted. `has_waited`: the
        last one never ran."""
        attempt = self.progress.attempt + (1 if is_counted else 0)
        waits = self.progress.waits + 1 if has_waited else 0
        self._advance(launch=self.progress.launch + 1, attempt=attempt, waits=waits)

    def pending_since(self, launched: LaunchResult) -> str:
        """When the run began to wait; a launch that never ran does not restart this."""
        return self.waits_since or launched.pending_since

    def running_seconds_left(self, *, now: datetime) -> float | None:
        """Seconds left of timeoutSeconds, None without a limit."""
        if not self.timeout_seconds:
            return None
        running = (now - parse(self.started_at)).total_seconds() if self.started_at else 0.0
        return self.timeout_seconds - self.progress.seconds_used - running

    def expires_in(self, launched: LaunchResult, *, now: datetime) -> float | None:
        """Seconds until the clock that counts expires, None without a limit: pendingTimeoutSeconds
        while the container has not started, then timeoutSeconds.
        """
        if self.started_at is not None:
            return self.running_seconds_left(now=now)
        limit = launched.pending_timeout_seconds
        return (
            limit - (now - parse(self.pending_since(launched))).total_seconds() if limit else None
        )

    def outcome(self, verdict: Verdict, phase: Phase, reason: Reason) -> RecordInput:
        """The outcome that follows from the verdict on the last launch."""
        held_job = self.job if verdict.is_held_open else None
        only_job = self.job if self.progress.launch == 1 and not self.unverified_launch else None
        starts = (item.start_time for item in self.progress.attempts)
        known = self.progress.first_started_at or self.started_at
        first = parse(known) if known else next(filter(None, starts), None)
        return RecordInput(
            run=self.run,
            phase=phase,
            reason=reason,
            message=verdict.message,
            exit_code=verdict.exit_code,
            started_at=rfc3339(first) if first is not None else None,
            finished_at=verdict.finished_at,
            snapshot=self.job.snapshot if self.job else "",
            only_job_name=only_job.job_name if only_job else "",
            only_job_uid=only_job.job_uid if only_job else "",
            held_job_name=held_job.job_name if held_job else "",
            held_job_uid=held_job.job_uid if held_job else "",
            submitter=self._submitter,
            **dict(self.progress),
            **Produced.fields_of(verdict),
        )

    def _end_running(self, started: str, finished: str) -> None:
        used = self.progress.seconds_used + seconds_between(started, finished)
        first = self.progress.first_started_at or started
        self._advance(seconds_used=used, first_started_at=first)
        self.started_at = None

    def _advance(self, **changes: object) -> None:
        self.progress = self.progress.model_copy(update=changes)
