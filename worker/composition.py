"""The composition root of the worker: builds the clients, passes them to the activities, runs the two Temporal workers."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Self

from temporalio.client import Client
from temporalio.worker import Worker

from activities.cancel_run import RunCanceller
from activities.check_origin import OriginChecker
from activities.cluster.afterwards import Afterwards
from activities.cluster.cleanup_starter import start_cleanup
from activities.cluster.config_reader import ConfigReader
from activities.cluster.events import EventRecorder
from activities.cluster.history_pruner import HistoryPruner
from activities.cluster.job_watch import JobWatch
from activities.cluster.launch_reader import LaunchReader
from activities.cluster.pod_logs import PodLogs
from activities.cluster.progress_publisher import ProgressPublisher
from activities.cluster.refusal_events import RefusalEvents
from activities.cluster.signatures import record_signer
from activities.cluster.submission_history import SubmissionHistory
from activities.delete_run import RunDeleter
from activities.delete_schedule import ScheduleDeleter
from activities.follow_job import JobFollower
from activities.inspect_launch import LaunchInspector
from activities.installation import Installation
from activities.launch_job import JobLauncher
from activities.publish_status import StatusPublisher
from activities.read_run import RunReader
from activities.read_spec import SpecReader
from activities.record_outcome import OutcomeRecorder
from activities.rules import manifests
from activities.stop_job import JobStopper
from activities.stop_launch import LaunchStopper
from activities.submit_run import RunSubmitter
from activities.verify_output import OutputVerifier
from inferrun.control.installation import installation_id
from inferrun.control.pace import Pace, TurnOf
from inferrun.control.process import Part, work_until
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_defaults_folder import DefaultsFolder
from inferrun.control.territory import Territory
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError
from inferrun.kube.leases import LeaderElection
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.run_ref import RunRef
from inferrun.temporal.connection import connect as connect_temporal
from inferrun.temporal.connection import register_at_start
from inferrun.temporal.monitor import TemporalMonitor
from inferrun.temporal.rotation import rotations_of
from inferrun.timestamps import utc_now
from worker.api_servers import ApiServers
from worker.caller_check import CallerCheck
from worker.lanes import Activity, LaneSettings, lane_workers, serving
from worker.observer.cluster_jobs import ClusterJobs
from worker.observer.observer import Observer
from worker.observer.run_signals import RunSignals
from worker.observer.status_writer import StatusWriter
from worker.observer.workload_watch import WorkloadWatch
from worker.settings import WorkerSettings
from workflows.activity_options import follower_queue
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import InferenceRun
from workflows.submit import SubmitInferenceRun

AT_ONCE = 8
PER_SECOND = 10.0
"""Runs of a namespace that are stopped, or end without a Job, because of one of their clocks or a cancellation, and those that its
schedules create. A namespace determines these moments for hundreds of runs at once, and workflows execute what follows in the order
in which it arrives, whatever their namespace."""

logger = logging.getLogger(__name__)

WORKFLOW_TASKS = 100
"""Workflow tasks at a time. Most of the time, each waits for the API server, because activities are executed locally. With 16, the
stops of 300 runs occupied all of them, and the task of another namespace's run waited for 2.5 to 19 seconds (measured). In the
queue of the worker that has their workflows in its cache, Temporal gives namespaces no turns."""

WORKFLOW_POLLS = 8
SHARE_OF_NEW_WORKFLOWS = 0.5
"""The requests that wait for workflow tasks, and how many of them wait for those of new workflows. By default, one of the SDK's 5
does: while it delivered a task, Temporal wrote those of other new runs to its database, for 4 of 10 runs in a burst (measured).
"""

RECORD_SECONDS = 2.0
"""After this time a worker that starts tries again to record its key, if the API server rejects that."""

STICKY_SECONDS = timedelta(seconds=5)
"""How long a task of a cached workflow waits for the worker that has it in its cache, before any worker may take it.

The SDK's default of 10 seconds alone is as long as the ends of runs may take to be recorded after a worker was killed."""


class WorkerProcess:
    """Everything that one worker process runs."""

    def __init__(
        self, settings: WorkerSettings, *, api: KubeClient, client: Client, installation: str, defaults: DefaultsFolder
    ) -> None:
        common = settings.common
        self._settings = settings
        self._defaults = defaults
        self._api = api
        self._client = client
        self._monitor = TemporalMonitor(client)
        self._api_servers = ApiServers(api)
        self._events = EventRecorder(api, reporter=common.identity)
        self._installation = Installation(
            id=installation,
            task_queue=common.task_queue,
            temporal_namespace=client.namespace,
            ui_url=common.ui_url,
            namespace=common.namespace,
        )
        self._job_watch = JobWatch(api, namespaces=common.watched, selector=manifests.SELECTOR)
        self._territory = Territory(
            api, watched=common.watched, installation=installation, report=RefusalEvents(self._events).report
        )
        self._watch = WorkloadWatch(api, namespaces=common.watched, installation=installation, served=self._territory)
        self._territory.subscribe(self._watch.begin)
        self._runs = RunStore(api, watched=self._watch.run_of)
        self._election = LeaderElection(
            api, namespace=common.namespace, name=f"{common.release}-worker", identity=common.identity
        )
        self._observer = Observer(
            api,
            watch=self._watch,
            leadership=self._election,
            signals=lambda: RunSignals(client),
            look_again=RunSignals(client).look_again,
            writer=StatusWriter(self._runs, events=self._events),
            defaults=defaults.current,
            jobs=ClusterJobs(api, installation=installation, defaults=defaults.current),
        )
        self._afterwards = Afterwards()
        self._turn_to_end = _turns()
        self._turn_to_fire = _turns()
        self._callers = CallerCheck(client, task_queue=common.task_queue, served=settings.served_namespaces)
        self._origins = OriginChecker(client, task_queue=common.task_queue)
        run_activities = self._run_activities()
        self._main = self._main_worker(run_activities)
        self._followers = self._follower_worker()
        self._lanes = lane_workers(client, run_activities, self._lane_settings())

    @classmethod
    @asynccontextmanager
    async def start(cls, settings: WorkerSettings) -> AsyncIterator[Self]:
        """Connect to both servers; on exit, close the connections."""
        common = settings.common
        api = await connect(kubeconfig=common.kubeconfig)
        try:
            installation = await installation_id(api, common)
            client = await connect_temporal(
                identity=f"inferrun/{installation}/{common.identity}", codec_keys=common.codec_keys
            )
            await register_at_start(client)
            defaults = DefaultsFolder(settings.defaults_folder)
            yield cls(settings, api=api, client=client, installation=installation, defaults=defaults)
        finally:
            await api.close()

    @property
    def is_ready(self) -> bool:
        """Whether all Temporal workers poll, the watch has listed its objects and Temporal answers."""
        is_polling = all(worker.is_running for worker in (self._main, self._followers, *self._lanes))
        return self._observer.is_ready and self._territory.is_ready and is_polling and self._monitor.is_ready

    @property
    def refusals(self) -> str:
        """The namespaces that another installation serves."""
        return self._territory.refusals

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set; if one part ends with an error, the process ends."""
        await self._api_servers.read()
        await self._record_signer()
        parts: list[Part] = [
            self._territory,
            self._watch,
            self._job_watch,
            self._election,
            self._observer,
            self._defaults,
            self._monitor,
            self._api_servers,
            self._afterwards,
            *rotations_of(self._client, on_change=self._reconnect),
        ]
        background = [asyncio.create_task(part.run()) for part in parts]
        async with serving((self._main, self._followers, *self._lanes)):
            logger.info("the worker is serving", extra={"task_queue": self._settings.common.task_queue})
            await work_until(stopped, background)

    async def _record_signer(self) -> None:
        """Wait until the key is recorded: another process must recognise whatever is signed with it."""
        installation = self._installation
        while True:
            try:
                await record_signer(
                    self._api, installation.signing_key, namespace=installation.namespace, now=utc_now()
                )
            except KubeError as error:
                logger.warning("the key of this process cannot be recorded yet", extra={"error": str(error)[:500]})
                await asyncio.sleep(RECORD_SECONDS)
            else:
                return

    def _reconnect(self) -> None:
        for worker in (self._main, self._followers, *self._lanes):
            worker.client = self._client

    def _lane_settings(self) -> LaneSettings:
        settings = self._settings
        return LaneSettings(
            task_queue=settings.common.task_queue,
            slots=settings.activity_slots,
            shutdown=settings.shutdown_seconds,
            interceptors=(self._callers,),
        )

    def _main_worker(self, run_activities: list[Activity]) -> Worker:
        settings = self._settings
        return Worker(
            self._client,
            task_queue=settings.common.task_queue,
            workflows=[InferenceRun, InferenceRunCleanup, SubmitInferenceRun],
            activities=[*run_activities, *self._submission_activities(), self._origins.check_origin],
            interceptors=[self._callers],
            max_concurrent_activities=settings.activity_slots,
            max_concurrent_workflow_tasks=WORKFLOW_TASKS,
            max_concurrent_workflow_task_polls=WORKFLOW_POLLS,
            nonsticky_to_sticky_poll_ratio=SHARE_OF_NEW_WORKFLOWS,
            max_cached_workflows=settings.cached_workflows,
            sticky_queue_schedule_to_start_timeout=STICKY_SECONDS,
            graceful_shutdown_timeout=settings.shutdown_seconds,
        )

    def _follower_worker(self) -> Worker:
        publisher = ProgressPublisher(self._runs, events=self._events)
        return Worker(
            self._client,
            task_queue=follower_queue(self._settings.common.task_queue),
            activities=[JobFollower(self._api, self._runs, watch=self._job_watch, publisher=publisher).follow_job],
            interceptors=[self._callers],
            max_concurrent_activities=self._settings.follower_slots,
        )

    def _run_activities(self) -> list[Activity]:
        """The activities of a run's workflows, other than following its Jobs."""
        launcher = JobLauncher(
            self._api,
            self._runs,
            installation=self._installation,
            defaults=self._current_defaults,
            runner_account=self._settings.runner_account,
            new_runs=self._watch.new_runs,
            events=self._events,
        )
        pruner = HistoryPruner(self._api, self._runs, events=self._events, postpone=self._prune_later)
        recorder = OutcomeRecorder(
            self._api,
            self._runs,
            events=self._events,
            temporal=self._client,
            installation=self._installation,
            configs=ConfigReader(
                self._api, defaults=self._defaults.current, runner_account=self._settings.runner_account
            ),
            defaults=self._defaults.current,
            prune=pruner.prune,
            afterwards=self._afterwards.add,
            watched_job=self._watch.jobs.get,
            turn_of=self._turn_to_end,
        )
        launches = LaunchReader(self._api, self._runs, ended_pods=self._ended_pods, watched_job=self._watch.jobs.get)
        return [
            launcher.launch_job,
            LaunchInspector(
                self._api,
                self._runs,
                launches,
                installation=self._installation,
                logs=PodLogs(self._api),
                defaults=self._defaults.current,
            ).inspect_launch,
            LaunchStopper(
                self._api,
                self._runs,
                launches,
                defaults=self._defaults.current,
                watched_orphans=self._watch.orphans_of,
                turn_of=self._turn_to_end,
            ).stop_launch,
            JobStopper(self._api, self._runs).stop_job,
            SpecReader(self._runs).read_spec,
            StatusPublisher(self._api, self._runs, events=self._events).publish_status,
            OutputVerifier(self._api, self._runs, installation=self._installation).verify_output,
            recorder.record_outcome,
            RunDeleter(self._api, self._runs, events=self._events, prune=pruner.prune).delete_run,
        ]

    async def _prune_later(self, run: RunRef, seconds: int) -> None:
        because = "its schedule keeps no more runs"
        await start_cleanup(self._client, run, delay_seconds=seconds, because=because, installation=self._installation)

    def _current_defaults(self) -> Defaults:
        """The operator's defaults; runs must not reach the control plane at the addresses that this process uses."""
        defaults = self._defaults.current()
        own = (self._client.service_client.config.target_host, self._api.address, *self._api_servers.addresses)
        return defaults.model_copy(update={"refused_addresses": (*defaults.refused_addresses, *own)})

    def _ended_pods(self, job_uid: str) -> list[Object]:
        return [end.as_pod() for end in self._watch.remembered_ends(job_uid)]

    def _submission_activities(self) -> list[Activity]:
        """The activities of the front door."""
        canceller = RunCanceller(self._api, self._runs, temporal=self._client)
        submitter = RunSubmitter(
            self._api,
            self._runs,
            events=self._events,
            history=SubmissionHistory(self._client, task_queue=self._settings.common.task_queue),
            namespaces=self._settings.served_namespaces,
            labels=lambda: self._defaults.current().propagated_labels,
            excluded_annotations=lambda: self._defaults.current().excluded_annotations,
            cancel=canceller.cancel,
            turn_of=self._turn_to_fire,
        )
        return [
            submitter.submit_run,
            RunReader(self._runs).read_run,
            canceller.cancel_run,
            ScheduleDeleter(self._client, self._runs, installation=self._installation.id).delete_schedule,
        ]


def _turns() -> TurnOf:
    pace = Pace(burst=AT_ONCE, per_second=PER_SECOND)
    return lambda namespace: pace.wait_seconds(namespace, now=time.monotonic())
