"""`SubmitRun`: creates the run of a submission, or finds the one that the same submission created
earlier.

Idempotent by the run's name. What cannot succeed is returned as a result; an unreachable API server
is an error, which Temporal retries. So is a rejection of a schedule's run by a quota, a role or an
admission webhook, because there is nobody to repeat the request; it is retried until the run's
starting deadline. An Event on the schedule says why a run was not created.

Temporal applies a schedule's `concurrencyPolicy` to the workflows that it remembers. What decides
is which of the schedule's runs are in progress in the cluster.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.schedule_actions import ScheduleActions
from activities.schedule_children import list_children
from activities.submission_history import SubmissionHistory
from control.cluster.events import EventRecorder
from control.runs.submissions import adopted, rejected, submission_status, submitted_run
from control.schedules.account import is_accounted, is_nominal_time, missed_because
from control.schedules.children import in_progress, overlapping, scheduled_run
from control.survival import trying_each
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AdmissionUnavailable, AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import RUNS, Object, name_of
from inferrun.kube.runs import RunStore
from inferrun.launches.launch_blocked import PATIENT_TRIES, not_admitted
from inferrun.reasons import Reason
from inferrun.resources import ConcurrencyPolicy, InferenceRun, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.timestamps import parse, rfc3339
from workflows import activity_options
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput, refused

REPLACEMENT_DELAY = timedelta(seconds=2)
"""Until a run that replaces others is tried again. They take up to their Pods' grace period to
end."""

EARLY = timedelta(seconds=10)
"""The time by which the clocks of Temporal's processes may differ. That of the worker is not
asked."""


class RunSubmitter:
    """`defaults` say which labels and annotations schedules pass on. `cancel` requests the
    cancellation of a run. Which namespaces submissions may reach is checked for each activity
    (`worker.caller_check`).
    """

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        events: EventRecorder,
        history: SubmissionHistory,
        actions: ScheduleActions,
        defaults: Callable[[], Defaults],
        cancel: Callable[[RunRef], Awaitable[None]],
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._history = history
        self._actions = actions
        self._defaults = defaults
        self._cancel = cancel

    @activity.defn(name=activity_options.SUBMIT.name)
    async def submit_run(self, request: SubmitInput) -> SubmissionStatus:
        """The run, created or found, or why there is none."""
        namespace = request.submission.namespace
        parent = request.submission.parent
        if parent is not None:
            schedule = await self._runs.read(
                RunRef(namespace=namespace, name=parent.name, uid=parent.uid)
            )
            return await self._submit_scheduled(request, schedule)
        wanted = submitted_run(request.submission, workflow_id=request.workflow_id)
        found = await self._runs.find(namespace, name_of(wanted))
        if found is not None:
            return adopted(wanted, found)
        earlier = await self._deleted(wanted, namespace) or await self._history.find(request)
        if earlier is not None:
            return earlier
        try:
            return await self._create(namespace, wanted)
        except Forbidden as error:
            return rejected(Reason.REQUEST_REFUSED, str(error))

    async def _submit_scheduled(
        self, request: SubmitInput, schedule: InferenceRun | None
    ) -> SubmissionStatus:
        """The run of a schedule for its nominal time; `schedule` is None if the scheduled run no
        longer exists."""
        if schedule is None or not schedule.spec.is_schedule:
            return SubmissionStatus(standing=SubmissionState.NO_PARENT)
        namespace = schedule.metadata.namespace
        due, is_triggered = await self._due_time(request, schedule)
        wanted = scheduled_run(
            schedule,
            workflow_id=request.workflow_id,
            nominal_time=due,
            defaults=self._defaults(),
            is_triggered=is_triggered,
        )
        found = await self._runs.find(namespace, name_of(wanted))
        if found is not None:
            return await self._reported(schedule, adopted(wanted, found))
        if is_accounted(schedule, due):
            text = f"the run due at {rfc3339(due)} is not created: status.times of the schedule accounts for that time"
            settled = rejected(Reason.MISSED, f"{text}; use an InferenceRun with spec.backfill")
            return await self._deleted(wanted, namespace) or await self._reported(schedule, settled)
        others = await self._in_progress(schedule)
        # By the clock that decides when a schedule is due.
        missed = missed_because(
            schedule, nominal_time=due, now=activity.info().started_time, others=others
        )
        if missed is not None:
            return await self._reported(schedule, rejected(*missed))
        if others:  # Temporal tries again to create the new one
            with trying_each() as one:
                for run in others:
                    with one():
                        if wellknown.ANNOTATION_CANCEL_REQUESTED not in run.metadata.annotations:
                            await self._cancel(run.ref)
            text = f"{others[0].ref} is being cancelled (concurrencyPolicy: Replace); the next run is created when it has ended"
            raise ApplicationError(
                text, type=str(Reason.CANCELLED), next_retry_delay=REPLACEMENT_DELAY
            )
        # The run of a time that somebody triggered, which is not accounted for. One that overlapped
        # was taken back.
        earlier = await self._deleted(wanted, namespace)
        if (
            earlier is not None
            and earlier.result is not None
            and earlier.result.reason is not Reason.RUN_DELETED
        ):
            return earlier
        try:
            created = await self._create(namespace, wanted)
        except (Forbidden, AdmissionUnavailable) as error:
            blocker = not_admitted(f"{wellknown.RUN_KIND} {name_of(wanted)}", error)
            if not blocker.may_pass or activity.info().attempt > PATIENT_TRIES:
                await self._events.record(
                    schedule.ref, reason=blocker.reason, message=blocker.message, is_warning=True
                )
            raise
        if created.run is not None:
            await self._take_back_if_overlapping(created.run, schedule)
        return await self._reported(schedule, created)

    async def _due_time(
        self, request: SubmitInput, schedule: InferenceRun
    ) -> tuple[datetime, bool]:
        """The nominal time, and whether somebody triggered the schedule at another time than those
        at which it fires. Raises ApplicationError: whoever may start workflows may claim to be a
        schedule.
        """
        due = parse(request.nominal_time) if request.nominal_time else None
        if due is None or due > activity.info().started_time + EARLY:
            raise refused("parent: unknown field; it is set by schedules, when a run is due")
        is_triggered = not is_nominal_time(schedule, due.replace(microsecond=0))
        if is_triggered and not await self._actions.has_started(schedule.ref, request.workflow_id):
            raise refused(
                "parent: unknown field; it is set by schedules, and this workflow was not started by one"
            )
        return due, is_triggered

    async def _deleted(self, wanted: Object, namespace: str) -> SubmissionStatus | None:
        """The end of the run if an earlier try created it and it was deleted before this one: the
        worker that created it died."""
        info = activity.info()
        if info.attempt == 1:
            return None
        return await self._history.find_deleted(
            namespace, name_of(wanted), since=info.scheduled_time
        )

    async def _take_back_if_overlapping(self, run: RunRef, schedule: InferenceRun) -> None:
        """Delete a run beside which another one was created, and have Temporal try again. One that
        has been launched remains the run of its time, and is cancelled.
        """
        text = (
            f"another run was created at the same moment as {run}, which must not overlap with it"
        )
        while mine := overlapping(run, await self._in_progress(schedule)):
            if mine.status.job_status is not None:
                await self._cancel(run)
                await self._events.record(
                    run, reason=Reason.CANCELLED, message=text, is_warning=True
                )
                return
            version = mine.metadata.resource_version
            if await self._api.delete_if_present(
                RUNS, run.namespace, run.name, uid=run.uid, version=version
            ):
                raise ApplicationError(text, type=str(Reason.MISSED))

    async def _in_progress(self, schedule: InferenceRun) -> list[InferenceRun]:
        if schedule.spec.concurrency_policy is ConcurrencyPolicy.ALLOW:
            return []
        return in_progress(schedule.ref, await list_children(self._api, schedule.ref))

    async def _reported(self, schedule: InferenceRun, status: SubmissionStatus) -> SubmissionStatus:
        """The status. Nobody else hears that a run of a schedule was refused."""
        if status.standing is SubmissionState.REFUSED:
            await self._events.record(
                schedule.ref, reason=status.reason, message=status.message, is_warning=True
            )
        return status

    async def _create(self, namespace: str, wanted: Object) -> SubmissionStatus:
        """Raises Forbidden for a rejection that may pass."""
        try:
            created = parse_run(await self._api.create(RUNS, namespace, wanted))
        except AlreadyExists:
            return adopted(wanted, parse_run(await self._api.get(RUNS, namespace, name_of(wanted))))
        except (Invalid, NotFound) as error:
            return rejected(Reason.REQUEST_REFUSED, str(error))
        return submission_status(created.ref, created)
