"""`RecordOutcome`: writes the outcome of a run and starts what follows from it.

The outcome is written once: a terminal status that already exists is kept, and is the result. What
follows (the clean-up workflow, the signal to the submitter, the pruning of a schedule's history,
the Event, the Jobs' time to live) is started only after the outcome has been stored, and again by a
retry.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client

from activities.calling_workflow import calling_workflow
from activities.config_reader import ConfigReader
from activities.delete_run import AutoDelete, HistoryPruner, start_cleanup
from activities.model_reader import ModelReader
from activities.outcome_spans import outcome_spans
from activities.publish_status import result_of_update
from control.cluster.config_maps import find_snapshot
from control.cluster.events import EventRecorder
from control.cluster.job_marks import set_time_to_live
from control.schedules.children import schedule_of
from control.temporal_calls import notify_submitter
from control.tracing import NO_TRACES, Traces
from control.trust.identity import Installation
from inferrun import wellknown
from inferrun.kserve import identity_of
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import JOBS
from inferrun.kube.runs import RunStore
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import Snapshot, at_the_end, drift
from inferrun.launches.verdict import Produced
from inferrun.reasons import Phase, Reason
from inferrun.resources import AutoDeletePolicy, InferenceRun, InferenceRunStatus
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import ended_status
from inferrun.timestamps import parse
from workflows import activity_options, messages
from workflows.messages import RecordInput, StatusResult

logger = logging.getLogger(__name__)

PRUNE_ATTEMPTS = 5
"""Tries of the activity in which a schedule's history must be pruned."""


class OutcomeRecorder:
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
        pruner: HistoryPruner,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._temporal = temporal
        self._installation = installation
        self._configs = configs
        self._models = ModelReader(api)
        self._defaults = defaults
        self._pruner = pruner
        self._traces = traces

    @activity.defn(name=activity_options.RECORD.name)
    async def record_outcome(self, request: RecordInput) -> StatusResult:
        """Write the outcome, then start what follows from it."""
        result, run = await self._record(request)
        self._traces.add(*outcome_spans(request, run, now=self._api.now()))
        # other spans are below these: if the worker is killed before, a retry writes them
        await self._traces.deliver()
        return result

    async def _record(self, request: RecordInput) -> tuple[StatusResult, InferenceRun | None]:
        """The result, and the run with its outcome; None if it is gone."""
        snapshot = await find_snapshot(
            self._api, self._runs, request.run, remembered=request.snapshot
        )
        auto_delete = await self._auto_delete(request.run, snapshot)
        generation: int | None = None
        revision = ""
        if snapshot is not None and snapshot.service is not None:
            try:
                generation, revision = identity_of(await self._models.read(snapshot.service))
            except (LaunchBlocked, KubeError) as error:  # an outcome does not wait for the model
                logger.info(
                    "the model cannot be read at the end of its run", extra={"error": str(error)}
                )

        def decide(run: InferenceRun) -> InferenceRunStatus:
            workflow, now, delete_after = None, self._api.now(), None
            if run.status.job_status is None:  # the run ended before a launch has written this
                workflow = calling_workflow(self._installation)
            # A schedule's runs have its history limits.
            if (
                schedule_of(run) is None
                and auto_delete is not None
                and auto_delete.deletes(request.phase)
            ):
                delete_after = now + timedelta(seconds=auto_delete.delay_seconds)
            return ended_status(
                run,
                phase=request.phase,
                reason=request.reason,
                message=request.message,
                now=now,
                finished=parse(request.finished_at) if request.finished_at else None,
                start_time=parse(request.started_at) if request.started_at else None,
                attempt=request.attempt,
                attempts=request.attempts or None,
                exit_code=request.exit_code,
                **Produced.fields_of(request),
                workflow=workflow,
                delete_after=delete_after,
                model=at_the_end(run.status.model, generation=generation, revision=revision),
            )

        written = await self._runs.update_status(request.run, decide)
        result, run = result_of_update(written.run), written.run
        if run is None:
            await notify_submitter(
                self._temporal, request.submitter, request.run, signal=messages.LOOK_AGAIN_SIGNAL
            )
            return result, None
        if request.held_job_name:
            name, uid = request.held_job_name, request.held_job_uid
            await self._api.delete_if_present(JOBS, request.run.namespace, name, uid=uid)
        schedule = schedule_of(run)
        if schedule is None and auto_delete is not None and auto_delete.deletes(run.status.phase):
            delay, because = auto_delete.delay_seconds, auto_delete.because
            await start_cleanup(
                self._temporal,
                run.ref,
                delay_seconds=delay,
                because=because,
                installation=self._installation,
            )
        submitter = run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID, "")
        await notify_submitter(
            self._temporal, submitter, run.ref, signal=messages.LOOK_AGAIN_SIGNAL
        )
        if schedule is not None and wellknown.LABEL_BACKFILL not in run.metadata.labels:
            try:
                await self._pruner.prune(schedule, ending=run.ref)
            except (KubeError, ValidationError) as error:
                # An outcome does not wait for other runs for long; the next child prunes again,
                # perhaps in a month.
                if isinstance(error, KubeError) and activity.info().attempt < PRUNE_ATTEMPTS:
                    raise
                fields = {"schedule": schedule.name, "error": str(error)}
                logger.warning("a schedule's history was not pruned", extra=fields)
        is_warning, message = result.phase is not Phase.SUCCEEDED, result.message or "done"
        await self._events.record(
            run.ref, reason=result.reason, message=message, is_warning=is_warning
        )
        if changed := drift(run.status.model):
            await self._events.record(
                run.ref, reason=Reason.MODEL_CHANGED, message=changed, is_warning=True
            )
        seconds = (
            snapshot.ttl_seconds_after_finished
            if snapshot is not None
            else self._defaults().job_ttl_seconds
        )
        only = (request.only_job_name, request.only_job_uid)
        await set_time_to_live(
            self._api, run.ref, seconds=seconds, only_job=only if all(only) else None
        )
        return result, run

    async def _auto_delete(self, ref: RunRef, snapshot: Snapshot | None) -> AutoDelete | None:
        """What becomes of the run: as it was started with, or, if it never was, as its config says.
        None: it is kept."""
        if snapshot is not None:
            return AutoDelete(snapshot.auto_delete_policy, snapshot.auto_delete_delay_seconds)
        run = await self._runs.read(ref)
        config = await self._configs.find(run) if run is not None else None
        if config is None:
            return None
        return AutoDelete(
            config.spec.auto_delete_policy or AutoDeletePolicy.NONE,
            config.spec.delete_after_seconds,
        )
