"""Follows one launch of a run to its verdict by signals and timers, and stops it when one of the run's clocks expires.

Between two events it holds nothing: no activity, no poll. A signal only says that the launch should be inspected; an
activity reads from the cluster what happened. Replaces `launch_supervision` for workflows with lifecycle 2.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from temporalio import workflow

from inferrun.reasons import Phase, Reason
from inferrun.timestamps import parse, rfc3339
from workflows import activity_options
from workflows.activity_execution import execute_locally
from workflows.launch_signals import LaunchSignals
from workflows.launch_supervision import DEADLINE_GRACE, STOP_GRACE
from workflows.messages import (
    InspectInput,
    LaunchReport,
    LaunchResult,
    LaunchStage,
    PublishInput,
    StatusResult,
    StopLaunchInput,
    StopLaunchResult,
    Verdict,
    VerdictKind,
)
from workflows.retry_policy import check_disruptions, success_of
from workflows.run_state import RunState
from workflows.signals import Started

GRACE_MARGIN = 15
"""Seconds after their grace period within which the kubelet reports that stopped Pods are gone."""

VANISHING_CHECKS = 4
"""How often to look again, two seconds each, for the objects of Pods whose containers have ended: users who see that a run
has ended expect to see no Pod."""

TURN_SUMMARY = "many runs of the namespace end at the same moment"

SPARED_SECONDS = 1.0
"""The least time after which a launch is stopped that was left alone although its time seemed to be over."""

FORCED_STOP_SECONDS = 10
"""How long to wait for Pods after their deletion was forced. Then they count as fenced off: a kubelet that has lost its
API server, or a finalizer, keeps the objects, but the API server accepts nothing more from them."""


class _Event(StrEnum):
    INSPECT = "Inspect"
    EXPIRED = "Expired"
    SUSPENDED = "Suspended"


class LaunchFollowing:
    """The following of one launch; `supervise` returns its verdict."""

    def __init__(self, state: RunState, launched: LaunchResult, signals: LaunchSignals) -> None:
        self._state = state
        self._launched = launched
        self._signals = signals
        self._lost_pods: set[str] = set()
        """The Pods whose loss was dealt with: more than one observer may signal it."""
        self._hinted_pod_uid = ""
        """The Pod that the latest `ended` names: without a limit no start is signalled, but its loss is."""
        self._has_turn = False
        """Whether the launch has waited until it was the turn of its namespace to stop one."""
        self._successor: Started | None = None
        """The start of another Pod than the one that is known to run: the loss of that one has not been dealt with."""

    async def supervise(self) -> Verdict:
        """Follow the Job to its end. While a lost Pod is being replaced, the run's clock is stopped."""
        event = _Event.INSPECT if self._launched.is_adopted else await self._next_event()
        while True:
            if self._state.is_suspended:
                return await self._suspend()
            verdict = await (self._inspect() if event is _Event.INSPECT else self._expire())
            if verdict is not None:
                return verdict
            event = await self._next_event()

    async def stop(
        self, *, grace: int, because: str, only_waiting: bool = False, only_after_seconds: float | None = None
    ) -> StopLaunchResult:
        """Stop the launch and wait until its Pods are gone or fenced off; a success that comes to light is reported."""
        request = StopLaunchInput(
            run=self._state.run,
            job_name=self._launched.job_name,
            job_uid=self._launched.job_uid,
            snapshot=self._launched.snapshot,
            pod_shape=self._launched.pod_shape,
            pod_uid=self._state.pod_uid,
            grace_seconds=grace,
            only_waiting=only_waiting,
            only_after_seconds=only_after_seconds,
        )
        first = await self._stop_in_turn(request, because=because)
        if not first.is_stopped:
            return first
        last = await self._until_no_pod_is_left(request, first, because=because)
        before, end = first.report.verdict, last.report.verdict
        verdict = _with_end(end, before) if before is not None else end
        return first.model_copy(update={"report": first.report.model_copy(update={"verdict": verdict})})

    async def _stop_in_turn(self, request: StopLaunchInput, *, because: str) -> StopLaunchResult:
        """The first stop of the launch. Of hundreds that a namespace stops at the same moment, most wait here, so that the runs of
        others do not wait for them. A stop with conditions is then left to the caller, because they may have changed meanwhile.
        """
        stopped = await self._stop_once(request.model_copy(update={"takes_turn": not self._has_turn}), because=because)
        if stopped.turn_in_seconds <= 0:
            return stopped
        self._has_turn = True
        if request.only_waiting or request.only_after_seconds is not None:
            await self._wait(stopped.turn_in_seconds, summary=TURN_SUMMARY)
            return stopped
        await workflow.sleep(stopped.turn_in_seconds, summary=TURN_SUMMARY)
        return await self._stop_once(request, because=because)

    async def _until_no_pod_is_left(
        self, request: StopLaunchInput, stopped: StopLaunchResult, *, because: str
    ) -> StopLaunchResult:
        """Wait for the Pods within their grace period, then force their deletion; returns the last report.

        A signal only says that it is worth looking; deletion is forced only when the time is up.
        """
        again = request.model_copy(update={"only_waiting": False, "only_after_seconds": None})
        until = workflow.now() + timedelta(seconds=request.grace_seconds + GRACE_MARGIN)
        is_forced = False
        vanishing_checks = 0
        while stopped.pods_left or (stopped.pods_vanishing and vanishing_checks < VANISHING_CHECKS):
            if not stopped.pods_left:
                vanishing_checks += 1
                stopped = await self._stop_once(again, because=because)
                continue
            is_signalled = await self._wait_for_pods((until - workflow.now()).total_seconds())
            if not is_signalled and is_forced:
                break
            if not is_signalled:
                is_forced = True
                again = again.model_copy(update={"grace_seconds": 0})
                until = workflow.now() + timedelta(seconds=FORCED_STOP_SECONDS)
            stopped = await self._stop_once(again, because=because)
        return stopped

    async def _next_event(self) -> _Event:
        """Wait until there is something to inspect or the clock that is running expires."""
        job_uid = self._launched.job_uid
        while True:
            self._limit_history()
            if self._state.is_suspended:
                return _Event.SUSPENDED
            pod_uid = self._signals.take_ended(job_uid)
            if pod_uid is not None:
                self._hinted_pod_uid = pod_uid
                return _Event.INSPECT
            started = self._signals.take_started(job_uid)
            if started is not None and self._is_successor(started):
                self._successor = started
                return _Event.INSPECT
            if started is not None:
                self._begin(started)
            left = self._seconds_left()
            if left is not None and left <= 0:
                return _Event.EXPIRED
            name = "timeoutSeconds" if self._state.started_at else "pendingTimeoutSeconds"
            await self._wait(left, summary=f"{name} of the run")

    def _limit_history(self) -> None:
        """Continue as new if the history is long, because of many replaced Pods, edits or signals. The Job lives on."""
        if workflow.info().is_continue_as_new_suggested():
            workflow.continue_as_new(self._state.continued(following=self._launched))

    async def _wait(self, seconds: float | None, *, summary: str, seen: int | None = None) -> None:
        """Wait for a signal, after the first `seen` ones if they are given, or until the time is up."""
        seen = self._state.signal_count if seen is None else seen
        try:
            await workflow.wait_condition(
                lambda: self._state.signal_count != seen, timeout=seconds, timeout_summary=summary
            )
        except TimeoutError:
            return

    def _is_successor(self, started: Started) -> bool:
        """Whether it is the start of another Pod than the known one, which has used time."""
        return (
            bool(self._state.pod_uid) and started.pod_uid != self._state.pod_uid and bool(self._state.timeout_seconds)
        )

    def _begin(self, started: Started) -> None:
        """The run's clock starts. The signal is only a hint: before the deadline is enforced, the Pod itself is asked."""
        if not self._state.timeout_seconds or started.pod_uid in (self._state.pod_uid, *self._lost_pods):
            return  # without a limit no clock needs the start, and a forged one would stop that of waiting
        self._state.pod_uid = started.pod_uid
        self._state.started_at = rfc3339(min(parse(started.started_at), self._now))
        self._show_running()

    def _begin_if_signalled(self) -> None:
        """After a crash, the start of the container may be signalled along with the end of the stopped launch: without it, nothing
        would say that the run's time was up. An end that names another Pod is dealt with first.
        """
        job_uid = self._launched.job_uid
        started = self._signals.pending_start(job_uid)
        if started is not None and not self._state.pod_uid and self._hinted_pod_uid in ("", started.pod_uid):
            self._signals.take_started(job_uid)
            self._begin(started)

    def _show_running(self) -> None:
        attempt = self._state.progress.attempt
        workflow.set_current_details(f"**Running** since {self._state.started_at}, attempt {attempt}.")

    async def _inspect(self) -> Verdict | None:
        """The verdict on the launch, None if it continues."""
        self._begin_if_signalled()
        request = InspectInput(
            run=self._state.run,
            job_name=self._launched.job_name,
            job_uid=self._launched.job_uid,
            snapshot=self._launched.snapshot,
            pod_shape=self._launched.pod_shape,
            pod_uid=self._state.pod_uid or self._hinted_pod_uid,
            seconds_left=self._whole_seconds_left(),
        )
        summary, asked = f"inspect {self._launched.job_name}", workflow.now()
        report = await execute_locally(activity_options.INSPECT, request, LaunchReport, summary=summary)
        self._state.set_clock(report.cluster_time, asked=asked, now=workflow.now())
        return await self._act_on(report)

    async def _act_on(self, report: LaunchReport) -> Verdict | None:
        successor, self._successor = self._successor, None
        if report.stage is LaunchStage.ENDED:
            verdict = self._unless_expired(report)
            if verdict is None or verdict.kind is not VerdictKind.DISRUPTED:
                return verdict
            return self._count_disruption(verdict)
        if report.stage is LaunchStage.STUCK and report.verdict is not None:
            is_lost = report.verdict.kind is VerdictKind.NODE_LOST
            return await (self._fence(report.verdict) if is_lost else self._conclude(report.verdict))
        if report.stage is LaunchStage.POD_LOST:
            return await self._lose_pod(report, successor=successor)
        self._continue(report)
        return None

    def _unless_expired(self, report: LaunchReport) -> Verdict | None:
        """The verdict on a launch that ended. If its Job is gone although its time was up, an earlier stop deleted it, whose
        result was lost in a crash.
        """
        left = self._seconds_left()
        if report.verdict is None or report.verdict.kind is not VerdictKind.JOB_GONE or left is None or left > 0:
            return report.verdict
        is_running = self._state.started_at is not None
        verdict = self._deadline_verdict(report) if is_running else self._waited_too_long(report)
        return _with_end(report.verdict, verdict)

    def _continue(self, report: LaunchReport) -> None:
        """Take over what the report says about a launch that continues."""
        if report.stage is LaunchStage.RUNNING and report.started_at is not None:
            self._state.pod_uid = report.pod_uid
            self._state.started_at = report.started_at
            self._show_running()

    async def _lose_pod(self, report: LaunchReport, *, successor: Started | None = None) -> Verdict | None:
        """The clock stops. Only time that the cluster confirms counts: the start came with a signal, which can be forged."""
        if report.pod_uid and report.pod_uid in self._lost_pods:
            return None
        self._lost_pods.add(report.pod_uid)
        self._state.started_at = report.started_at
        lost_at = report.lost_at or rfc3339(self._now)
        is_known = bool(report.pod_name) or report.pod_uid == self._state.pod_uid
        if is_known:  # anybody with access to Temporal can claim that a Pod existed
            self._state.add_replaced_pod(self._launched, report, lost_at=lost_at)
        self._state.pod_uid = ""
        self._state.lose_pod(is_disrupted=report.is_disrupted, now=parse(lost_at))
        exceeded = check_disruptions(self._state.disruptions, limit=self._launched.max_disruptions)
        if exceeded is not None:
            return await self._conclude(exceeded)
        if successor is not None:
            self._begin(successor)
        elif is_known:
            await self._publish_loss(report)
        return None

    async def _publish_loss(self, report: LaunchReport) -> None:
        request = PublishInput(
            run=self._state.run,
            phase=Phase.PENDING,
            reason=report.loss_reason,
            message=report.loss_message,
            attempt=self._state.progress.attempt,
            attempts=self._state.progress.attempts,
            seconds_used=self._state.progress.seconds_used,
            warning=report.is_disrupted,
        )
        summary = f"publish the loss of Pod {report.pod_name}"
        await execute_locally(activity_options.PUBLISH, request, StatusResult, summary=summary)

    async def _fence(self, verdict: Verdict) -> Verdict:
        """Delete a launch whose node does not respond. Its kubelet cannot confirm that, so there is no grace period."""
        return await self._conclude(self._count_disruption(verdict), grace=0)

    def _count_disruption(self, verdict: Verdict) -> Verdict:
        self._state.disruptions += 1
        count, limit = self._state.disruptions, self._launched.max_disruptions
        return check_disruptions(count, limit=limit, ended=verdict) or verdict

    async def _conclude(self, verdict: Verdict, *, grace: int = STOP_GRACE) -> Verdict:
        """The verdict, once no Pod of the launch is left; a success that the stop finds replaces it."""
        stopped = await self.stop(grace=grace, because=verdict.reason)
        return _with_end(stopped.report.verdict, verdict)

    async def _suspend(self) -> Verdict:
        """Stop the launch. If it had ended, how it ended counts, unless its Job is gone: an earlier stop deleted it."""
        now = rfc3339(self._now)
        report = (await self.stop(grace=STOP_GRACE, because=Reason.SUSPENDED)).report
        if report.verdict is not None and report.verdict.kind is not VerdictKind.JOB_GONE:
            return report.verdict
        suspended = Verdict(
            kind=VerdictKind.SUSPENDED,
            reason=Reason.SUSPENDED,
            message="the run was suspended by spec.suspend",
            started_at=report.started_at or self._state.started_at,
            finished_at=report.lost_at or now,
            pod_name=report.pod_name,
            node_name=report.node_name,
        )
        return _with_end(report.verdict, suspended)

    async def _expire(self) -> Verdict | None:
        """One of the clocks has expired: stop the launch, unless the cluster shows that its time is not over."""
        is_running, seen = self._state.started_at is not None, self._state.signal_count
        stopped = await (self._stop_at_deadline() if is_running else self._stop_waiting())
        if stopped.turn_in_seconds > 0:
            return None
        if not stopped.is_stopped:
            if is_running and stopped.report.stage is LaunchStage.WAITING:
                return await self._lose_pod(stopped.report)
            verdict = await self._act_on(stopped.report)
            if verdict is None:
                seconds = max(SPARED_SECONDS, stopped.seconds_left)
                await self._wait(seconds, summary="the launch may go on", seen=seen)
            return verdict
        verdict = self._deadline_verdict(stopped.report) if is_running else self._waited_too_long(stopped.report)
        return _with_end(stopped.report.verdict, verdict)

    async def _stop_at_deadline(self) -> StopLaunchResult:
        allowed = self._state.timeout_seconds - self._state.progress.seconds_used
        return await self.stop(
            grace=DEADLINE_GRACE, because=Reason.DEADLINE_EXCEEDED, only_after_seconds=max(0.0, allowed)
        )

    async def _stop_waiting(self) -> StopLaunchResult:
        return await self.stop(grace=STOP_GRACE, because=Reason.PENDING_TIMEOUT, only_waiting=True)

    def _deadline_verdict(self, report: LaunchReport) -> Verdict:
        return Verdict(
            kind=VerdictKind.OUT_OF_TIME,
            reason=Reason.DEADLINE_EXCEEDED,
            message=f"the run reached its timeoutSeconds of {self._state.timeout_seconds} s and was stopped",
            started_at=self._state.started_at,
            finished_at=rfc3339(self._now),
            pod_name=report.pod_name,
            node_name=report.node_name,
        )

    def _waited_too_long(self, report: LaunchReport) -> Verdict:
        waited = f"the run waited for more than {self._launched.pending_timeout_seconds} s (pendingTimeoutSeconds)"
        last = report.wait_message
        message = f"{waited}; last reason: {last}" if last else waited
        return Verdict(kind=VerdictKind.FAILED, reason=Reason.PENDING_TIMEOUT, message=message, may_retry=False)

    async def _stop_once(self, request: StopLaunchInput, *, because: str) -> StopLaunchResult:
        summary, asked = f"{because}: stop {request.job_name}", workflow.now()
        stopped = await execute_locally(activity_options.STOP_LAUNCH, request, StopLaunchResult, summary=summary)
        self._state.set_clock(stopped.report.cluster_time, asked=asked, now=workflow.now())
        return stopped

    async def _wait_for_pods(self, seconds: float) -> bool:
        """Wait for the signal that no Pod is left; False if the time is up first."""
        if seconds <= 0:
            return False
        job_uid = self._launched.job_uid
        try:
            await workflow.wait_condition(
                lambda: self._signals.take_ended(job_uid) is not None,
                timeout=seconds,
                timeout_summary=f"Pods of {self._launched.job_name} end",
            )
        except TimeoutError:
            return False
        return True

    @property
    def _now(self) -> datetime:
        """By the clock of the API server, as are the times that it is compared with."""
        return self._state.cluster_time(workflow.now())

    def _whole_seconds_left(self) -> int | None:
        left = self._state.running_seconds_left(now=self._now)
        return None if left is None else max(1, round(left))

    def _seconds_left(self) -> float | None:
        return self._state.expires_in(self._launched, now=self._now)


def _with_end(end: Verdict | None, verdict: Verdict) -> Verdict:
    """The verdict on a launch that was stopped: its success replaces it, an end that says nothing makes it unclear."""
    if end is None:
        return verdict
    return success_of(end) or verdict.model_copy(update={"is_unclear": end.is_unclear})
