"""Says on a run's status, and with Events for the turning points, where it stands while it is under way."""

import hashlib
from collections import OrderedDict

from activities.rules import observed
from activities.rules.diagnosis import Wait
from inferrun import wellknown
from inferrun.control.run_status import status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, KubeError
from inferrun.kube.objects import EVENTS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.runner_report import RecordCounts
from inferrun.text import one_line
from workflows.messages import FollowInput

REMEMBERED = 20_000
"""Runs whose last published state is kept in memory, so that an unchanged one costs no request."""


class Publisher:
    """Writes what followers see."""

    def __init__(self, api: KubeClient, runs: RunStore, *, reporter: str) -> None:
        self._api = api
        self._runs = runs
        self._reporter = reporter
        self._last: OrderedDict[str, tuple[object, ...]] = OrderedDict()

    async def waiting(self, request: FollowInput, wait: Wait) -> None:
        """Pending, with the reason and the cure."""
        state = (Phase.PENDING, wait.reason, wait.message)
        if self._said(request) == state:
            return
        await self._write(request, phase=Phase.PENDING, reason=wait.reason, message=wait.message)
        self._remember(request, state)
        if wait.is_warning:
            await self.event(request.run, reason=wait.reason, message=wait.message, is_warning=True)

    async def running(self, request: FollowInput, *, started_at: str, records: RecordCounts | None) -> None:
        """Running, with the counts so far."""
        state = (Phase.RUNNING, started_at, records)
        if self._said(request) == state:
            return
        message = f"attempt {request.attempt} runs in Job {request.job_name}"
        await self._write(
            request,
            phase=Phase.RUNNING,
            reason=Reason.RUNNING,
            message=message,
            started_at=started_at,
            records=records,
        )
        self._remember(request, state)
        if records is None:
            await self.event(request.run, reason=Reason.RUNNING, message=message, is_warning=False)

    def forget(self, request: FollowInput) -> None:
        """Say everything anew: who followed before may have been another worker."""
        self._last.pop(_key_of(request), None)

    async def event(self, run: RunRef, *, reason: Reason, message: str, is_warning: bool) -> None:
        """An Event on the run. The same words again are the same Event; what cannot be told is not worth a failure."""
        try:
            await self._api.create(
                EVENTS, run.namespace, event_for(run, reason, message, is_warning=is_warning, by=self._reporter)
            )
        except (AlreadyExists, KubeError):
            return

    async def _write(
        self,
        request: FollowInput,
        *,
        phase: Phase,
        reason: Reason,
        message: str,
        started_at: str | None = None,
        records: RecordCounts | None = None,
    ) -> None:
        def decide(run: InferenceRun) -> InferenceRunStatus | None:
            if run.status.job_status is None or run.status.job_status.name != request.job_name:
                return None  # a later launch has taken over
            return status_after(
                run,
                phase=phase,
                reason=reason,
                message=message,
                now=observed.utc_now(),
                attempt=request.attempt,
                start_time=run.status.start_time or started_at,
                records=records.model_dump() if records else None,
            )

        await self._runs.update_status(request.run, decide)

    def _said(self, request: FollowInput) -> tuple[object, ...] | None:
        return self._last.get(_key_of(request))

    def _remember(self, request: FollowInput, state: tuple[object, ...]) -> None:
        key = _key_of(request)
        self._last[key] = state
        self._last.move_to_end(key)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)


def _key_of(request: FollowInput) -> str:
    return f"{request.run.uid}/{request.launch}"


def event_for(run: RunRef, reason: Reason, message: str, *, is_warning: bool, by: str) -> Object:
    """The Event object; its name is made of what it says, so that a repeated write finds the first one."""
    digest = hashlib.sha256(f"{run.uid} {reason} {message}".encode()).hexdigest()[:16]
    now = observed.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{run.name[:230]}.{digest}", "namespace": run.namespace},
        "involvedObject": {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "name": run.name,
            "namespace": run.namespace,
            "uid": run.uid,
        },
        "reason": str(reason),
        "message": one_line(message, limit=1000),
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": "inferrun"},
        "reportingComponent": f"{wellknown.DOMAIN}/worker",
        "reportingInstance": by[:128],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
