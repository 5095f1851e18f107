"""`RecordOutcome`: writes the outcome of a run and starts what follows from it.

The outcome is written once: a terminal status that already exists is kept, and is the result. What follows (the clean-up
workflow, the signal to the submitter, the pruning of a schedule's history, the Event, the Jobs' time to live) is started
only after the outcome has been stored, and again by a retry. Nobody waits for the last two: they make way for the outcomes
of other runs.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client

from activities.cluster.afterwards import Step, execute_at_once
from activities.cluster.cleanup_starter import start_cleanup
from activities.cluster.config_maps import find_config_map
from activities.cluster.config_reader import ConfigReader
from activities.cluster.deletion import delete_if_present
from activities.cluster.events import EventRecorder
from activities.cluster.job_marks import JobsOfRun, set_time_to_live
from activities.cluster.launch_reader import WatchedJob
from activities.cluster.model_reader import ModelReader
from activities.installation import Installation
from activities.rules import job_state
from activities.rules.auto_delete import AutoDelete
from activities.rules.child_runs import schedule_of
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.model_status import at_the_end, drift
from activities.rules.object_metadata import uid_of
from activities.rules.snapshot import Snapshot
from activities.rules.status_results import result_of_update
from activities.rules.workflow_reference import workflow_reference
from inferrun import wellknown
from inferrun.control.pace import TurnOf
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_status import ended_status
from inferrun.kserve import identity_of
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import JOBS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.temporal.submissions import notify_submitter
from inferrun.timestamps import parse
from workflows import activity_options, messages
from workflows.messages import RecordInput, StatusResult

logger = logging.getLogger(__name__)

PRUNE_ATTEMPTS = 5
"""Tries of the activity in which a schedule's history must be pruned."""

Follow = Callable[[str, tuple[Step, ...]], Awaitable[None]]
"""Executes steps, of which a run has one list, now or soon (`activities.cluster.afterwards`)."""


class Prune(Protocol):
    """Prunes the finished runs of a schedule."""

    def __call__(self, parent: RunRef, /, *, ending: RunRef) -> Awaitable[object]:
        """Prune them, after the end of the run that is `ending`. Raises KubeError, RPCError or pydantic.ValidationError."""


class OutcomeRecorder:
    """One instance serves all runs of a worker."""

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        events: EventRecorder,
        temporal: Client,
        installation: Installation,
        configs: ConfigReader,
        defaults: Callable[[], Defaults],
        prune: Prune,
        afterwards: Follow = execute_at_once,
        watched_job: WatchedJob = lambda _namespace, _name: None,
        turn_of: TurnOf = lambda _namespace: 0.0,
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._temporal = temporal
        self._installation = installation
        self._configs = configs
        self._models = ModelReader(api)
        self._defaults = defaults
        self._prune = prune
        self._afterwards = afterwards
        self._watched_job = watched_job
        self._turn_of = turn_of

    @activity.defn(name=activity_options.RECORD.name)
    async def record_outcome(self, request: RecordInput) -> StatusResult:
        """Write the outcome, then start what follows from it."""
        takes_turn = request.takes_turn and not await self._runs.is_gone(request.run)
        if takes_turn and (seconds := self._turn_of(request.run.namespace)) > 0:
            return StatusResult(turn_in_seconds=seconds)
        snapshot = await self._snapshot(request)
        auto_delete = await self._auto_delete(request.run, snapshot)
        known = self._runs.watched(request.run)
        generation, revision = await self._model_at_end(snapshot)

        def decide(run: InferenceRun) -> InferenceRunStatus:
            model = at_the_end(run.status.model, generation=generation, revision=revision)
            return self._outcome(run, request, auto_delete, model=model)

        written = await self._runs.update_status(request.run, decide, read=known)
        result = result_of_update(written.run)
        if written.run is None:
            await self._notify(request.submitter, request.run)
            return result
        if request.held_job_name:
            name, uid = request.held_job_name, request.held_job_uid
            await delete_if_present(self._api, JOBS, request.run.namespace, name, uid=uid)
        await self._follow_up(written.run, auto_delete)
        if not request.only_job_name:  # those of earlier launches are marked already, so nobody would find them later
            await self._set_time_to_live(written.run, snapshot, request)
        await self._afterwards(request.run.uid, self._steps(written.run, result, snapshot, request))
        return result

    def _steps(
        self, run: InferenceRun, result: StatusResult, snapshot: Snapshot | None, request: RecordInput
    ) -> tuple[Step, ...]:
        """What nobody waits for: the Event, and that the Job is marked."""
        jobs = _jobs_of(run, request)

        async def record_events() -> None:
            is_warning = result.phase is not Phase.SUCCEEDED
            message = result.message or "done"
            await self._events.record(run.ref, reason=result.reason, message=message, is_warning=is_warning)
            if changed := drift(run.status.model):
                await self._events.record(run.ref, reason=Reason.MODEL_CHANGED, message=changed, is_warning=True)

        mark = partial(self._set_time_to_live, run, snapshot, request)
        steps = (Step(record_events), Step(mark, is_early=partial(self._is_finishing, jobs)))
        return steps if request.only_job_name else steps[:1]

    async def _set_time_to_live(self, run: InferenceRun, snapshot: Snapshot | None, request: RecordInput) -> None:
        seconds = snapshot.ttl_seconds_after_finished if snapshot is not None else self._defaults().job_ttl_seconds
        await set_time_to_live(self._api, _jobs_of(run, request), seconds=seconds)

    def _is_finishing(self, jobs: JobsOfRun) -> bool:
        """Whether the only Job's controller has yet to finish it: a change in between would make its own fail."""
        job = self._watched_job(jobs.run.namespace, jobs.only_name)
        return job is not None and uid_of(job) == jobs.only_uid and not job_state.is_finished(job)

    async def _model_at_end(self, snapshot: Snapshot | None) -> tuple[int | None, str]:
        """Generation and revision of the object that serves the model; unknown if it cannot be read: an outcome does not wait."""
        if snapshot is None or snapshot.service is None:
            return None, ""
        try:
            return identity_of(await self._models.read(snapshot.service, after=None))
        except (LaunchBlocked, KubeError) as error:
            logger.info("the model cannot be read at the end of its run", extra={"error": str(error)})
            return None, ""

    async def _auto_delete(self, ref: RunRef, snapshot: Snapshot | None) -> AutoDelete | None:
        """What becomes of the run: as it was started with, or, if it never was, as its config says. None: it is kept."""
        if snapshot is not None:
            return AutoDelete.of_snapshot(snapshot)
        run = await self._runs.read(ref)
        config = await self._configs.find(run) if run is not None else None
        return AutoDelete.of_config(config, defaults=self._defaults()) if config is not None else None

    def _outcome(
        self,
        run: InferenceRun,
        request: RecordInput,
        auto_delete: AutoDelete | None,
        *,
        model: dict[str, Any] | None,  # Any: a model's fields
    ) -> InferenceRunStatus:
        workflow = None
        if run.status.job_status is None:  # the run ended before a launch has written this
            info = activity.info()
            workflow = workflow_reference(self._installation, workflow_id=info.workflow_id, run_id=info.workflow_run_id)
        return ended_status(
            run,
            phase=request.phase,
            reason=request.reason,
            message=request.message,
            now=self._api.now(),
            finished=_parse(request.finished_at),
            start_time=_parse(request.started_at),
            attempt=request.attempt,
            attempts=[item.model_dump() for item in request.attempts] or None,
            exit_code=request.exit_code,
            records=request.records.model_dump() if request.records else None,
            usage=request.usage.model_dump() if request.usage else None,
            delivery=request.delivery,
            output=request.output.model_dump() if request.output else None,
            workflow=workflow.model_dump() if workflow is not None else None,
            delete_after=_due_of(run, auto_delete, phase=request.phase, now=self._api.now()),
            model=model,
        )

    async def _snapshot(self, request: RecordInput) -> Snapshot | None:
        """What the run was started with; None if it was not started, or if that cannot be read any more."""
        if request.snapshot:
            return Snapshot.model_validate_json(request.snapshot)
        run = await self._runs.read(request.run)
        try:
            compiled = await find_config_map(self._api, run) if run is not None else None
        except LaunchBlocked as blocker:  # the outcome is recorded already: only what follows from it is missing
            logger.warning("the run's snapshot cannot be read", extra={"run": str(request.run), "error": str(blocker)})
            return None
        return compiled.snapshot if compiled is not None else None

    async def _follow_up(self, run: InferenceRun, auto_delete: AutoDelete | None) -> None:
        schedule = schedule_of(run)
        if schedule is None and auto_delete is not None:
            await self._schedule_deletion(run, auto_delete)
        await self._notify(run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID, ""), run.ref)
        if schedule is not None:
            await self._prune_history(schedule, ending=run.ref)

    async def _schedule_deletion(self, run: InferenceRun, auto_delete: AutoDelete) -> None:
        if auto_delete.deletes(run.status.phase):
            await start_cleanup(
                self._temporal,
                run.ref,
                delay_seconds=auto_delete.delay_seconds,
                because=auto_delete.because,
                installation=self._installation,
            )

    async def _notify(self, submitter: str, run: RunRef) -> None:
        """Signal the end to the workflow that submitted the run, if there is one."""
        await notify_submitter(self._temporal, submitter, run, signal=messages.LOOK_AGAIN_SIGNAL)

    async def _prune_history(self, schedule: RunRef, *, ending: RunRef) -> None:
        """A failure is repeated a few times, with the activity, and then only logged, because an outcome must not wait for other
        runs; the next child prunes again, perhaps in a month.
        """
        try:
            await self._prune(schedule, ending=ending)
        except (KubeError, ValidationError) as error:
            if isinstance(error, KubeError) and activity.info().attempt < PRUNE_ATTEMPTS:
                raise
            logger.warning(
                "a schedule's history was not pruned", extra={"schedule": schedule.name, "error": str(error)}
            )


def _jobs_of(run: InferenceRun, request: RecordInput) -> JobsOfRun:
    return JobsOfRun(run.ref, only_name=request.only_job_name, only_uid=request.only_job_uid)


def _due_of(run: InferenceRun, auto_delete: AutoDelete | None, *, phase: Phase, now: datetime) -> datetime | None:
    """When the run is deleted; None if it is kept. Runs of a schedule are subject to its history limits instead."""
    if auto_delete is None or schedule_of(run) is not None or not auto_delete.deletes(phase):
        return None
    return now + timedelta(seconds=auto_delete.delay_seconds)


def _parse(text: str | None) -> datetime | None:
    return parse(text) if text else None
