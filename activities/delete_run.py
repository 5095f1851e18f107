"""`DeleteRun`: deletes a finished run whose config says so, or which its schedule does not keep,
and says so where users look for it.

Whoever may start workflows can start the one that calls this. What it does is therefore decided
here, from the run's status, and not by the caller.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from activities.schedule_children import LIST_PAGE, list_children
from control.cluster.events import EventRecorder, Subject
from control.schedules.children import KEPT, schedule_of, seconds_kept, to_prune
from control.survival import trying_each
from control.trust.identity import Installation
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import AutoDeletePolicy, InferenceRun
from inferrun.run_ref import RunRef
from inferrun.text import one_line
from workflows import activity_options, messages
from workflows.messages import CleanupInput, DeleteRunInput, DeletionResult, refused

BECAUSE_LIMIT = 200
"""Characters of the reason that the clean-up was started with."""

TOLERANCE = timedelta(seconds=5)
"""The clocks of the processes may differ."""


READER_SECONDS = 60
"""The seconds between two looks at a run that another one waits for."""

Postpone = Callable[[RunRef, int], Awaitable[None]]
"""Has a run pruned after so many seconds; may raise RPCError."""


class HistoryPruner:
    """Deletes the finished runs of any schedule that its history limits do not keep."""

    def __init__(
        self, api: KubeClient, runs: RunStore, *, events: EventRecorder, postpone: Postpone
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._postpone = postpone

    async def prune(self, parent: RunRef, *, ending: RunRef | None = None) -> list[str]:
        """Delete the finished runs beyond the parent's history limits; returns the names of those
        deleted.

        The one that is `ending`, whose workflow is asking, is always deleted later, however long
        ago its outcome was written.

        Raises KubeError, RPCError, and pydantic.ValidationError if a stored run cannot be parsed.
        """
        schedule = await self._runs.read(parent)
        if schedule is None:
            return []
        deleted: list[str] = []
        with trying_each() as one:
            for child in to_prune(schedule, await list_children(self._api, parent)):
                with one():
                    deleted += await self._prune_one(parent, child, ending=ending)
        return deleted

    async def _prune_one(
        self, parent: RunRef, child: InferenceRun, *, ending: RunRef | None
    ) -> list[str]:
        left = (
            KEPT.total_seconds()
            if child.ref == ending
            else seconds_kept(child, now=self._api.now())
        )
        if not left and await find_reader(self._api, child.ref) is not None:
            left = READER_SECONDS
        if left:
            await self._postpone(child.ref, math.ceil(left))
            return []
        is_success, name = child.status.phase is Phase.SUCCEEDED, child.metadata.name
        limit = "successfulJobsHistoryLimit" if is_success else "failedJobsHistoryLimit"
        message = f"InferenceRun {name} ({child.status.phase}) is deleted: {limit} of {parent.name} keeps no more runs"
        await self._events.record(
            child.ref, reason=Reason.HISTORY_PRUNED, message=message, is_warning=False
        )
        if not await self._api.delete_if_present(
            RUNS, parent.namespace, name, uid=child.metadata.uid
        ):
            return []
        await self._events.record(
            parent, reason=Reason.HISTORY_PRUNED, message=message, is_warning=False
        )
        return [name]


class RunDeleter:
    def __init__(
        self, api: KubeClient, runs: RunStore, *, events: EventRecorder, pruner: HistoryPruner
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._pruner = pruner

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete_run(self, request: DeleteRunInput) -> DeletionResult:
        """Delete the run with that UID; a run that is already gone is success.

        The Events come first: after the deletion, a retry would not know what to say. Raises
        ApplicationError if the run has not ended, or must be kept; if it is merely too early, it
        can be retried.
        """
        ref = request.run
        run = await self._runs.read(ref)
        if run is None:
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        if not run.status.is_terminal:
            raise refused(f"run {run.ref} has not ended")
        if reader := await find_reader(self._api, ref):
            text = f"InferenceRun {reader} waits to read the output of run {ref}"
            raise ApplicationError(text, next_retry_delay=timedelta(seconds=READER_SECONDS))
        schedule, now = schedule_of(run), self._api.now()
        if schedule is not None:  # the history limits decide, as they are now
            if left := seconds_kept(run, now=now):
                raise _too_early(run, until=now + timedelta(seconds=left), now=now)
            limits = f"the history limits of {schedule.name}"
            if run.metadata.name in await self._pruner.prune(schedule):
                return DeletionResult(
                    deleted=True, message=f"InferenceRun {ref} is deleted: {limits} do not keep it"
                )
            return DeletionResult(gone=False, message=f"InferenceRun {ref} is kept by {limits}")
        due = run.status.delete_after  # in the status, which users cannot write
        if due is None:
            raise refused(f"the autoDeletePolicy of run {run.ref} keeps it")
        if due - TOLERANCE > now:
            raise _too_early(run, until=due, now=now)
        config, why = run.config_name, one_line(request.because, limit=BECAUSE_LIMIT)
        because = f"autoDeletePolicy in InferenceConfig {config}{f'; {why}' if why else ''}"
        message = f"InferenceRun {run.metadata.name} ({run.status.phase}) is deleted: {because}"
        await self._events.record(
            run.ref, reason=Reason.AUTO_DELETED, message=message, is_warning=False
        )
        # another Event is on the config, which still exists when users look for the run
        with suppress(KubeError):
            found = await self._api.get(CONFIGS, run.config_namespace, config)
            subject = Subject(
                wellknown.CONFIG_KIND, run.config_namespace, config, found["metadata"]["uid"]
            )
            await self._events.record_on(
                subject, reason=Reason.AUTO_DELETED, message=message, is_warning=False
            )
        if not await self._api.delete_if_present(RUNS, ref.namespace, ref.name, uid=ref.uid):
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        return DeletionResult(deleted=True, message=message)


async def find_reader(api: KubeClient, run: RunRef) -> str | None:
    """The name of a run that has not started and waits for the output of this one. Raises
    KubeError.

    Once it has started, its contract says where that output is.
    """
    selector = f"status.inputRun.name={run.name}"
    async for item in api.items(RUNS, run.namespace, page_size=LIST_PAGE, fieldSelector=selector):
        status, name = item["status"], str(item["metadata"]["name"])
        if status.get("phase") not in (Phase.SUCCEEDED, Phase.FAILED) and not status.get(
            "contract"
        ):
            return name
    return None


@dataclass(frozen=True)
class AutoDelete:
    policy: AutoDeletePolicy
    delay_seconds: int

    @property
    def because(self) -> str:
        """Why a run is deleted, for its Event and the result of the clean-up."""
        return f"autoDeletePolicy is {self.policy} and autoDeleteDelaySeconds {self.delay_seconds}"

    def deletes(self, phase: Phase | None) -> bool:
        """Whether a run that ended in this phase is deleted."""
        if self.policy is AutoDeletePolicy.DELETE_ON_SUCCESS:
            return phase is Phase.SUCCEEDED
        return self.policy is AutoDeletePolicy.DELETE_ON_COMPLETION


async def start_cleanup(
    temporal: Client, run: RunRef, *, delay_seconds: int, because: str, installation: Installation
) -> None:
    """Start the clean-up; one that an earlier try started is success, even if it has already
    finished."""
    with suppress(WorkflowAlreadyStartedError):
        await temporal.start_workflow(
            messages.CLEANUP_WORKFLOW,
            CleanupInput(run=run, delay_seconds=delay_seconds, because=because),
            id=cleanup_workflow_id(run_workflow_id(run)),
            task_queue=installation.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={"installation": installation.id},
            priority=Priority(fairness_key=run.namespace),
            static_summary=f"delete InferenceRun {run}",
        )


def _too_early(run: InferenceRun, *, until: datetime, now: datetime) -> ApplicationError:
    return ApplicationError(
        f"run {run.ref} is kept until {until:%H:%M:%S}", next_retry_delay=until - now
    )
