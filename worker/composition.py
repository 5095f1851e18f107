"""The composition root of the worker: builds the clients, passes them to the activities, runs its
Temporal workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Self

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from activities.backfill import Backfiller
from activities.check_origin import OriginChecker
from activities.config_reader import ConfigReader
from activities.delete_run import HistoryPruner, RunDeleter, start_cleanup
from activities.delete_schedule import ScheduleDeleter
from activities.inspect_launch import LaunchInspector
from activities.launch_job import JobLauncher
from activities.launch_reader import LaunchReader
from activities.network_policy import NetworkPolicyCopier
from activities.publish_status import StatusPublisher
from activities.record_outcome import OutcomeRecorder
from activities.schedule_actions import ScheduleActions
from activities.stop_launch import LaunchStopper
from activities.submission_history import SubmissionHistory
from activities.submit_run import RunSubmitter
from activities.submitted_runs import SubmittedRuns
from activities.verify_output import OutputVerifier
from control.cluster.events import EventRecorder
from control.cluster.signers import Signatures, record_signer
from control.installation import installation_id
from control.metrics import TEMPORAL_REACHABLE, Metrics
from control.process import work_until
from control.run_defaults_folder import DefaultsFolder
from control.settings import ControlSettings
from control.temporal_monitor import TemporalMonitor
from control.tracing import NO_TRACES, Traces, open_traces
from control.trust.identity import Installation
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.temporal.connection import connect as connect_temporal
from inferrun.temporal.rotation import rotations_of
from worker.activity_spans import ActivitySpans
from worker.api_servers import ApiServers
from worker.caller_check import CallerCheck
from worker.progress_reads import ProgressReads
from workflows.activity_options import LANES, lane_queue
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import RunWorkflow
from workflows.submit import SubmitInferenceRun

logger = logging.getLogger(__name__)

ACTIVITY_SLOTS = 50
"""Short activities at a time, on each task queue: its own and one per lane."""

CACHED_WORKFLOWS = 1000
"""Workflows in memory, with about 80 KiB each; others are replayed from their history when
needed."""

SHUTDOWN_SECONDS = timedelta(seconds=10)
"""What running activities get after SIGTERM; less than the grace period of the Pod."""

WORKFLOW_TASKS = 100
"""Workflow tasks at a time. Most of the time, each waits for the API server, because activities are
executed locally. With 16, the stops of 300 runs occupied all of them, and the task of another
namespace's run waited for 2.5 to 19 seconds (measured). In the queue of the worker that has their
workflows in its cache, Temporal gives namespaces no turns."""

WORKFLOW_POLLS = 8
SHARE_OF_NEW_WORKFLOWS = 0.5
"""The requests that wait for workflow tasks, and how many of them wait for those of new workflows.
By default, one of the SDK's 5 does: while it delivered a task, Temporal wrote those of other new
runs to its database, for 4 of 10 runs in a burst (measured).
"""

STICKY_SECONDS = timedelta(seconds=5)
"""How long a task of a cached workflow waits for the worker that has it in its cache, before any
worker may take it.

The SDK's default of 10 seconds alone is as long as the ends of runs may take to be recorded after a
worker was killed."""


Activity = Callable[..., object]


def lane_workers(
    client: Client,
    activities: Sequence[Activity],
    *,
    task_queue: str,
    slots: int,
    shutdown: timedelta,
    interceptors: Sequence[Interceptor] = (),
) -> list[Worker]:
    """One Temporal worker per lane: an activity that fails or is slow as a local one is executed in
    a lane, which the workflow chooses. Each has that many slots of its own, so that a kind of step
    that gets stuck (stops on a dead node, say) takes no slot from the others. Its activities get
    the time `shutdown` to end when the worker stops.
    """
    return [
        Worker(
            client,
            task_queue=lane_queue(task_queue, lane),
            activities=activities,
            interceptors=interceptors,
            max_concurrent_activities=slots,
            graceful_shutdown_timeout=shutdown,
        )
        for lane in LANES
    ]


@asynccontextmanager
async def serving(workers: Sequence[Worker]) -> AsyncIterator[None]:
    """Run the Temporal workers. At the end they stop at the same time: one after the other, each
    would let its activities use up the time anew that the process has for stopping.
    """
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:
            await asyncio.gather(*(worker.shutdown() for worker in workers))


class WorkerProcess:
    def __init__(
        self,
        settings: ControlSettings,
        *,
        api: KubeClient,
        client: Client,
        installation: str,
        defaults: DefaultsFolder,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._settings = settings
        self._defaults = defaults
        self._api = api
        self._client = client
        self._traces = traces
        self._monitor = TemporalMonitor(client)
        self._api_servers = ApiServers(api)
        self._events = EventRecorder(api, reporter=settings.identity)
        self._installation = Installation(
            id=installation,
            task_queue=settings.task_queue,
            temporal_namespace=client.namespace,
            ui_url=settings.ui_url,
            namespace=settings.namespace,
        )
        self._runs = RunStore(api)
        callers = CallerCheck(
            client, task_queue=settings.task_queue, served=settings.served_namespaces
        )
        spans = ActivitySpans(traces)
        origins = OriginChecker(client, task_queue=settings.task_queue)
        submitted = SubmittedRuns(api, self._runs, temporal=client)
        run_activities = self._run_activities(submitted)
        main = Worker(
            client,
            task_queue=settings.task_queue,
            workflows=[RunWorkflow, InferenceRunCleanup, SubmitInferenceRun],
            activities=[
                *run_activities,
                *self._submission_activities(submitted),
                origins.check_origin,
            ],
            interceptors=[callers, spans, ProgressReads(submitted.read_progress)],
            max_concurrent_activities=ACTIVITY_SLOTS,
            max_concurrent_workflow_tasks=WORKFLOW_TASKS,
            max_concurrent_workflow_task_polls=WORKFLOW_POLLS,
            nonsticky_to_sticky_poll_ratio=SHARE_OF_NEW_WORKFLOWS,
            max_cached_workflows=CACHED_WORKFLOWS,
            sticky_queue_schedule_to_start_timeout=STICKY_SECONDS,
            graceful_shutdown_timeout=SHUTDOWN_SECONDS,
        )
        lanes = lane_workers(
            client,
            run_activities,
            task_queue=settings.task_queue,
            slots=ACTIVITY_SLOTS,
            shutdown=SHUTDOWN_SECONDS,
            interceptors=[callers, spans],
        )
        self._workers = (main, *lanes)

    @classmethod
    @asynccontextmanager
    async def start(cls, settings: ControlSettings, metrics: Metrics) -> AsyncIterator[Self]:
        """Connect to both servers; on exit, close the connections."""
        api = await connect(kubeconfig=settings.kubeconfig, traces=[metrics.trace_api()])
        traces = open_traces(settings, program="worker")
        try:
            installation = await installation_id(
                api, release=settings.release, namespace=settings.namespace
            )
            client = await connect_temporal(
                identity=f"inferrun/{installation}/{settings.identity}",
                codec_keys=settings.codec_keys,
                runtime=metrics.temporal,
            )
            defaults = DefaultsFolder(settings.defaults_folder)
            process = cls(
                settings,
                api=api,
                client=client,
                installation=installation,
                defaults=defaults,
                traces=traces,
            )
            metrics.show(TEMPORAL_REACHABLE, lambda: process._monitor.is_ready, "worker")
            yield process
        finally:
            await traces.deliver()
            await api.close()

    @property
    def is_ready(self) -> bool:
        return all(worker.is_running for worker in self._workers) and self._monitor.is_ready

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set; if one part ends with an error, the process ends."""
        await self._api_servers.read()
        installation = self._installation
        await record_signer(self._api, installation.signing_key, namespace=installation.namespace)

        def reconnect() -> None:
            for worker in self._workers:
                worker.client = self._client

        rotations = rotations_of(self._client, on_change=reconnect)
        async with serving(self._workers):
            logger.info("the worker is serving", extra={"task_queue": self._settings.task_queue})
            await work_until(
                stopped, (self._defaults, self._monitor, self._api_servers, *rotations)
            )

    def _run_activities(self, submitted: SubmittedRuns) -> list[Activity]:
        api = self._api
        runs = self._runs
        settings = self._settings
        defaults = self._defaults.current
        signatures = Signatures(api, installation=self._installation)
        launches = LaunchReader(api, runs, is_signer=signatures.is_signer, defaults=defaults)
        pruner = HistoryPruner(api, runs, events=self._events, postpone=self._prune_later)
        launcher = JobLauncher(
            api,
            runs,
            installation=self._installation,
            defaults=self._current_defaults,
            runner_account=settings.runner_account,
            events=self._events,
            network_policy=NetworkPolicyCopier(
                api, name=settings.run_network_policy, home=settings.namespace
            ),
            traces=self._traces,
        )
        recorder = OutcomeRecorder(
            api,
            runs,
            events=self._events,
            temporal=self._client,
            installation=self._installation,
            configs=ConfigReader(api, defaults=defaults, runner_account=settings.runner_account),
            defaults=defaults,
            pruner=pruner,
            traces=self._traces,
        )
        backfiller = Backfiller(
            api, runs, events=self._events, submitted=submitted, defaults=defaults
        )
        return [
            launcher.launch_job,
            LaunchInspector(api, runs, launches, installation=self._installation).inspect_launch,
            LaunchStopper(api, runs, launches).stop_launch,
            submitted.read_spec,
            backfiller.advance_backfill,
            StatusPublisher(api, runs, events=self._events).publish_status,
            OutputVerifier(api, runs, installation=self._installation).verify_output,
            recorder.record_outcome,
            RunDeleter(api, runs, events=self._events, pruner=pruner).delete_run,
        ]

    def _submission_activities(self, submitted: SubmittedRuns) -> list[Activity]:
        submitter = RunSubmitter(
            self._api,
            self._runs,
            events=self._events,
            history=SubmissionHistory(
                self._client,
                task_queue=self._settings.task_queue,
                installation=self._installation.id,
            ),
            actions=ScheduleActions(self._client),
            defaults=self._defaults.current,
            cancel=submitted.cancel,
        )
        return [
            submitter.submit_run,
            submitted.read_run,
            submitted.edit_run,
            ScheduleDeleter(
                self._client, self._runs, installation=self._installation.id
            ).delete_schedule,
        ]

    async def _prune_later(self, run: RunRef, seconds: int) -> None:
        because = "its schedule keeps no more runs"
        await start_cleanup(
            self._client,
            run,
            delay_seconds=seconds,
            because=because,
            installation=self._installation,
        )

    def _current_defaults(self) -> Defaults:
        """The operator's defaults; runs must not reach the control plane at the addresses that this
        process uses."""
        defaults = self._defaults.current()
        own = (
            self._client.service_client.config.target_host,
            self._api.address,
            *self._api_servers.addresses,
        )
        return defaults.model_copy(
            update={"refused_addresses": (*defaults.refused_addresses, *own)}
        )
