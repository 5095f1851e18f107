"""Follows one launch of a run to its verdict by signals and timers, and stops it when one of the
run's clocks expires.

Between two events it holds nothing: no activity, no poll. A signal only says that the launch should
be inspected; an activity reads from the cluster what happened.
"""

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from inferrun.launches.retry_policy import check_disruptions, success_of
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.stop_timing import STOP
from inferrun.timestamps import parse, rfc3339
from workflows import activity_options
from workflows.activity_execution import execute_locally, wait_until
from workflows.messages import (
    InspectInput,
    LaunchReport,
    LaunchResult,
    LaunchStage,
    PublishInput,
    StatusResult,
    StopLaunchInput,
    StopLaunchResult,
)
from workflows.run_state import RunState
from workflows.signals import LaunchSignals, Started

VANISHING_CHECKS = 4
"""How often to look again, two seconds each, for the objects of Pods whose containers have ended:
users who see that a run has ended expect to see no Pod."""

EDIT_SECONDS = 60
"""How long each step waits for edits that are being read. Anybody may signal edits all the time."""

SPARED_SECONDS = 1.0
"""The least time after which a launch is stopped that was left alone although its time seemed to be
over."""


class LaunchFollowing:
    """The following of one launch; `supervise` returns its verdict."""

    def __init__(self, state: RunState, launched: LaunchResult, signals: LaunchSignals) -> None:
        self._state = state
        self._launched = launched
        self._signals = signals
        self._lost_pods: set[str] = set()
        """The Pods whose loss was dealt with: more than one observer may signal it."""
        self._hinted_pod_uid = ""
        """The Pod that the latest `ended` names: without a limit no start is signalled, but its
        loss is."""
        self._successor: Started | None = None
        """The start of another Pod than the one that is known to run: the loss of that one has not
        been dealt with."""

    async def supervise(self) -> Verdict:
        """Follow the Job to its end. While a lost Pod is being replaced, the run's clock is
        stopped."""
        must_inspect, verdict = self._launched.is_adopted, None
        while verdict is None:
            # an edit that is being read may explain what a signal reports
            if not workflow.all_handlers_finished():
                await wait_until(
                    workflow.all_handlers_finished, seconds=EDIT_SECONDS, summary="the spec is read"
                )
            # because of many replaced Pods, edits or signals
            if workflow.info().is_continue_as_new_suggested():
                ended = self._signals.latest_end(
                    self._launched.job_uid, launch=self._launched.launch
                )
                workflow.continue_as_new(
                    self._state.continued(following=self._launched, ended=ended)
                )
            left: float | None = None
            if self._state.is_suspended:
                verdict = await self._suspend()
            elif must_inspect or self._must_inspect():
                verdict, must_inspect = await self._inspect(), False
            elif (
                left := self._state.expires_in(self._launched, now=self._now)
            ) is not None and left <= 0:
                verdict = await self._expire()
            else:
                name = "timeoutSeconds" if self._state.started_at else "pendingTimeoutSeconds"
                await self._wait_for_signal(
                    left, summary=f"{name} of the run", seen=self._state.signal_count
                )
        return verdict

    async def stop(
        self,
        *,
        grace: int,
        because: str,
        only_waiting: bool = False,
        only_after_seconds: float | None = None,
    ) -> StopLaunchResult:
        """Stop the launch and wait until its Pods are gone or fenced off; a success that comes to
        light is reported.

        A signal only says that it is worth looking; deletion is forced only when the grace period
        is over.
        """
        request = StopLaunchInput(
            **self._of_launch(pod_uid=self._state.pod_uid),
            grace_seconds=grace,
            only_waiting=only_waiting,
            only_after_seconds=only_after_seconds,
        )
        first = last = await self._stop_once(request, because=because)
        if not first.is_stopped:
            return first
        request = request.model_copy(update={"only_waiting": False, "only_after_seconds": None})
        until = workflow.now() + timedelta(seconds=grace + STOP.margin)
        is_forced, vanishing_checks = False, 0
        while last.pods_left or (last.pods_vanishing and vanishing_checks < VANISHING_CHECKS):
            if not last.pods_left:
                vanishing_checks += 1
            elif not await wait_until(
                lambda: self._signals.take_ended(self._launched.job_uid) is not None,
                seconds=(until - workflow.now()).total_seconds(),
                summary=f"Pods of {self._launched.job_name} end",
            ):
                if is_forced:
                    break
                is_forced, until = True, workflow.now() + timedelta(seconds=STOP.forced)
                request = request.model_copy(update={"grace_seconds": 0})
            last = await self._stop_once(request, because=because)
        before, end = first.report.verdict, last.report.verdict
        verdict = _with_end(end, before) if before is not None else end
        return first.model_copy(
            update={"report": first.report.model_copy(update={"verdict": verdict})}
        )

    async def _stop_once(self, request: StopLaunchInput, *, because: str) -> StopLaunchResult:
        summary, asked = f"{because}: stop {request.job_name}", workflow.now()
        request = request.model_copy(update={"ends": self._signals.of(request.job_uid).ends})
        stopped = await execute_locally(
            activity_options.STOP_LAUNCH, request, StopLaunchResult, summary=summary
        )
        self._state.set_clock(stopped.report.cluster_time, asked=asked, now=workflow.now())
        return stopped

    def _must_inspect(self) -> bool:
        """Whether a signal says that there is something to inspect; otherwise the start that was
        signalled counts."""
        pod_uid = self._signals.take_ended(self._launched.job_uid)
        if pod_uid is not None:
            self._hinted_pod_uid = pod_uid
            return True
        started = self._signals.take_started(self._launched.job_uid)
        if started is None:
            return False
        if (
            self._state.pod_uid
            and started.pod_uid != self._state.pod_uid
            and self._state.timeout_seconds
        ):
            self._successor = started  # the known Pod has used time
            return True
        self._begin(started)
        return False

    async def _wait_for_signal(self, seconds: float | None, *, summary: str, seen: int) -> None:
        await wait_until(lambda: self._state.signal_count != seen, seconds=seconds, summary=summary)

    def _begin(self, started: Started) -> None:
        """The run's clock starts. The signal is only a hint: before the deadline is enforced, the
        Pod itself is asked."""
        if not self._state.timeout_seconds or started.pod_uid in (
            self._state.pod_uid,
            *self._lost_pods,
        ):
            # without a limit no clock needs the start, and a forged one would stop that of waiting
            return
        self._show_running(
            started.pod_uid, since=rfc3339(min(parse(started.started_at), self._now))
        )

    def _show_running(self, pod_uid: str, *, since: str) -> None:
        self._state.pod_uid, self._state.started_at = pod_uid, since
        workflow.set_current_details(
            f"**Running** since {since}, attempt {self._state.progress.attempt}."
        )

    async def _inspect(self) -> Verdict | None:
        job_uid = self._launched.job_uid
        started = self._signals.of(job_uid).started
        if (
            started is not None
            and not self._state.pod_uid
            and self._hinted_pod_uid in ("", started.pod_uid)
        ):
            # After a crash, the start may be signalled along with the end of the stopped launch:
            # without it, nothing would say that the run's time was up. An end that names another
            # Pod is dealt with first.
            self._signals.take_started(job_uid)
            self._begin(started)
        left = self._state.running_seconds_left(now=self._now)
        request = InspectInput(
            **self._of_launch(pod_uid=self._state.pod_uid or self._hinted_pod_uid),
            ends=self._signals.of(job_uid).ends,
            seconds_left=None if left is None else max(1, round(left)),
        )
        summary, asked = f"inspect {self._launched.job_name}", workflow.now()
        report = await execute_locally(
            activity_options.INSPECT, request, LaunchReport, summary=summary
        )
        self._state.set_clock(report.cluster_time, asked=asked, now=workflow.now())
        return await self._act_on(report)

    def _of_launch(self, *, pod_uid: str) -> dict[str, Any]:  # Any: fields of different types
        launched = self._launched
        return {
            "run": self._state.run,
            "attempt": self._state.progress.attempt,
            "job_name": launched.job_name,
            "job_uid": launched.job_uid,
            "snapshot": launched.snapshot,
            "pod_shape": launched.pod_shape,
            "pod_uid": pod_uid,
        }

    async def _act_on(self, report: LaunchReport) -> Verdict | None:
        successor, self._successor = self._successor, None
        verdict = report.verdict
        if report.stage is LaunchStage.POD_LOST:
            return await self._lose_pod(report, successor=successor)
        if report.stage is LaunchStage.RUNNING and report.started_at is not None:
            self._show_running(report.pod_uid, since=report.started_at)
        if verdict is None or report.stage not in (LaunchStage.ENDED, LaunchStage.STUCK):
            return None
        if verdict.kind.is_disruption:
            self._state.disruptions += 1
            count, limit = self._state.disruptions, self._launched.max_disruptions
            verdict = check_disruptions(count, limit=limit, ended=verdict) or verdict
        if report.stage is LaunchStage.STUCK:
            # The kubelet of a node that does not respond cannot confirm the end of a Pod, so there
            # is no grace period.
            is_lost = report.verdict is not None and report.verdict.kind is VerdictKind.NODE_LOST
            return await self._conclude(verdict, grace=0 if is_lost else STOP.grace)
        left = self._state.expires_in(self._launched, now=self._now)
        if verdict.kind is VerdictKind.JOB_GONE and left is not None and left <= 0:
            # an earlier stop deleted the Job, whose result was lost in a crash
            return self._verdict_on_expired(report)
        return verdict

    async def _lose_pod(
        self, report: LaunchReport, *, successor: Started | None = None
    ) -> Verdict | None:
        """The clock stops. Only time that the cluster confirms counts: the start came with a
        signal, which can be forged."""
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
            request = PublishInput(
                run=self._state.run,
                phase=Phase.PENDING,
                reason=report.loss_reason,
                message=report.loss_message,
                warning=report.is_disrupted,
                **dict(self._state.progress),
            )
            summary = f"publish the loss of Pod {report.pod_name}"
            await execute_locally(activity_options.PUBLISH, request, StatusResult, summary=summary)
        return None

    async def _conclude(self, verdict: Verdict, *, grace: int = STOP.grace) -> Verdict:
        """The verdict, once no Pod of the launch is left; a success that the stop finds replaces
        it.

        A timer ends the workflow task first, and with it records the report behind the verdict: a
        worker that crashed after it had deleted the Job would otherwise know only that the Job is
        gone.
        """
        await workflow.sleep(timedelta(milliseconds=1), summary=verdict.reason)
        stopped = await self.stop(grace=grace, because=verdict.reason)
        return _with_end(stopped.report.verdict, verdict)

    async def _suspend(self) -> Verdict:
        """Stop the launch. If it had ended, how it ended counts, unless its Job is gone: an earlier
        stop deleted it."""
        now = rfc3339(self._now)
        report = (await self.stop(grace=STOP.grace, because=Reason.SUSPENDED)).report
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
        """One of the clocks has expired: stop the launch, unless the cluster shows that its time is
        not over."""
        is_running, seen = self._state.started_at is not None, self._state.signal_count
        if is_running:
            allowed = max(0.0, self._state.timeout_seconds - self._state.progress.seconds_used)
            stopped = await self.stop(
                grace=STOP.deadline_grace,
                because=Reason.DEADLINE_EXCEEDED,
                only_after_seconds=allowed,
            )
        else:
            stopped = await self.stop(
                grace=STOP.grace, because=Reason.PENDING_TIMEOUT, only_waiting=True
            )
        if stopped.is_stopped:
            return self._verdict_on_expired(stopped.report)
        if is_running and stopped.report.stage is LaunchStage.WAITING:
            return await self._lose_pod(stopped.report)
        verdict = await self._act_on(stopped.report)
        if verdict is None:
            seconds = max(SPARED_SECONDS, stopped.seconds_left)
            await self._wait_for_signal(seconds, summary="the launch may go on", seen=seen)
        return verdict

    def _verdict_on_expired(self, report: LaunchReport) -> Verdict:
        if self._state.started_at is not None:
            verdict = Verdict(
                kind=VerdictKind.OUT_OF_TIME,
                reason=Reason.DEADLINE_EXCEEDED,
                message=f"the run reached its timeoutSeconds of {self._state.timeout_seconds} s and was stopped",
                started_at=self._state.started_at,
                finished_at=rfc3339(self._now),
                pod_name=report.pod_name,
                node_name=report.node_name,
            )
            return _with_end(report.verdict, verdict)
        waited = f"the run waited for more than {self._launched.pending_timeout_seconds} s (pendingTimeoutSeconds)"
        message = f"{waited}; last reason: {report.wait_message}" if report.wait_message else waited
        verdict = Verdict(
            kind=VerdictKind.FAILED, reason=Reason.PENDING_TIMEOUT, message=message, may_retry=False
        )
        return _with_end(report.verdict, verdict)

    @property
    def _now(self) -> datetime:
        """The time by the clock of the API server, as are the times that it is compared with."""
        return self._state.cluster_time(workflow.now())


def _with_end(end: Verdict | None, verdict: Verdict) -> Verdict:
    """The verdict on a launch that was stopped: its success replaces it, an end that says nothing
    makes it unclear."""
    if end is None:
        return verdict
    return success_of(end) or verdict.model_copy(update={"is_unclear": end.is_unclear})
