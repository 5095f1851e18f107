"""The composition root of the shim: creates the clients and passes them to the other modules."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from temporalio.client import Client

from control.cluster.events import EventRecorder
from control.cluster.signers import record_signer
from control.installation import installation_id, warn_of_others
from control.leases import LeaderElection
from control.metrics import LEADER, TEMPORAL_REACHABLE, Metrics
from control.process import work_until
from control.run_defaults_folder import DefaultsFolder
from control.search_attributes import SearchAttributes
from control.settings import ControlSettings
from control.temporal_monitor import TemporalMonitor
from control.tracing import NO_TRACES, Traces, open_traces
from control.trust.identity import SigningKey
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.runs import RunStore
from inferrun.temporal.connection import connect as connect_temporal
from inferrun.temporal.rotation import rotations_of
from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.observer import Observer
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from operator_shim.run_metrics import RunMetrics
from operator_shim.run_watch import RunWatch
from operator_shim.shim import Shim
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows

logger = logging.getLogger(__name__)


class ShimProcess:
    def __init__(
        self,
        settings: ControlSettings,
        *,
        api: KubeClient,
        client: Client,
        installation: str,
        defaults: DefaultsFolder,
        metrics: Metrics,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._api = api
        self._namespace = settings.namespace
        self._defaults = defaults
        self._monitor = TemporalMonitor(client)
        self._attributes = SearchAttributes(client, installation=installation)
        events = EventRecorder(api, reporter=settings.identity, component="shim")
        self._rotations = rotations_of(client)
        self._workflows = RunWorkflows(
            client,
            installation=installation,
            task_queue=settings.task_queue,
            attributes=self._attributes,
            traces=traces,
        )
        self._runs = RunWatch(api, namespaces=settings.watched, defaults=defaults.current)
        self._watch = WorkloadWatch(
            api, runs=self._runs, namespaces=settings.watched, installation=installation
        )
        self._shim = Shim(
            api,
            run_watch=self._runs,
            workflows=self._workflows,
            schedules=TemporalSchedules(
                client,
                installation=installation,
                task_queue=settings.task_queue,
                attributes=self._attributes,
            ),
            namespaces=settings.watched,
            workers=settings.workers,
            resync_seconds=settings.resync_seconds,
            defaults=defaults.current,
            runner_account=settings.runner_account,
            events=events,
            metrics=metrics,
            note_pause=self._watch.note_pause,
        )
        self._key = SigningKey()
        self._election = LeaderElection(
            api,
            namespace=settings.namespace,
            name=f"{settings.release}-shim",
            identity=settings.identity,
        )
        self._observer = Observer(
            api,
            self._shim.loop,
            watch=self._watch,
            leadership=self._election,
            signals=RunSignals(client),
            writer=StatusWriter(RunStore(api), events=events),
            defaults=defaults.current,
            jobs=ClusterJobs(api, installation=installation, defaults=defaults.current),
            key=self._key,
            metrics=metrics,
        )
        metrics.show(LEADER, lambda: self._election.is_leader, "shim")
        metrics.show(TEMPORAL_REACHABLE, lambda: self._monitor.is_ready, "shim")
        RunMetrics(metrics, self._runs, is_leader=lambda: self._election.is_leader, now=api.now)

    @classmethod
    @asynccontextmanager
    async def start(cls, settings: ControlSettings, metrics: Metrics) -> AsyncIterator[Self]:
        """Connect to the API server; close the connection on exit. Temporal may be unreachable:
        runs are accepted anyway."""
        api = await connect(kubeconfig=settings.kubeconfig, traces=[metrics.trace_api()])
        traces = open_traces(settings, program="shim")
        try:
            installation = await installation_id(
                api, release=settings.release, namespace=settings.namespace
            )
            client = await connect_temporal(
                identity=f"inferrun-shim/{installation}/{settings.identity}",
                lazy=True,
                codec_keys=settings.codec_keys,
                runtime=metrics.temporal,
            )
            await warn_of_others(api, watched=settings.watched, installation=installation)
            defaults = DefaultsFolder(settings.defaults_folder)
            yield cls(
                settings,
                api=api,
                client=client,
                installation=installation,
                defaults=defaults,
                metrics=metrics,
                traces=traces,
            )
        finally:
            await traces.deliver()
            await api.close()

    @property
    def is_ready(self) -> bool:
        """Whether all watched resources have been listed, Temporal answers and workflows can be
        started."""
        is_serving = self._shim.is_ready and self._watch.is_synced  # a standby is ready as well
        return is_serving and self._monitor.is_ready and self._workflows.is_ready

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Watch until `stopped` is set; if a task fails, the process ends."""
        await record_signer(self._api, self._key, namespace=self._namespace)
        logger.info("shim started")
        watching = (self._shim, self._watch, self._election, self._observer)
        await work_until(
            stopped, (*watching, self._defaults, self._monitor, self._attributes, *self._rotations)
        )
