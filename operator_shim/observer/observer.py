"""The part of the shim that watches launches: progress and reasons for waiting go to statuses,
changes to workflows.

Every shim process keeps its caches filled; only the leader acts. Two leaders at once do no harm. A
new leader knows nothing of its predecessor: it compares the cluster with the statuses of the runs
and signals what is missing there.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from control.cluster.job_objects import list_events, read_log
from control.launches.pod_end import write_ends
from control.launches.trimming import slim_event
from control.leases import LeaderElection
from control.metrics import Metrics
from control.survival import surviving
from control.trust.identity import SigningKey
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import PageTooLarge
from inferrun.kube.objects import EVENTS, Object
from inferrun.run_defaults import Defaults
from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.readers import EventReader, LogReader
from operator_shim.observer.reconciler import Reconciler
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Runs of a namespace that look again because there may be room in a quota, so that hundreds do not
try for one place. Each that gets its Job changes the quota, which is the reason for the next
ones."""

PAGE = "500"
PAGE_BYTES = 4 * 1024 * 1024
"""The size of five hundred Events, which have half a MiB; but users may write others."""

MAX_PAGES = 20
"""The pages of the Events of a namespace: ten thousand, which is more than a namespace keeps unless
it is flooded."""


class Observer:
    """Run it as one task, beside the watch that it reads and the election that it follows."""

    def __init__(
        self,
        client: KubeClient,
        loop: RunLoop,
        *,
        watch: WorkloadWatch,
        leadership: LeaderElection,
        signals: RunSignals,
        writer: StatusWriter,
        jobs: ClusterJobs,
        defaults: Callable[[], Defaults],
        key: SigningKey,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._loop = loop
        self._watch = watch
        self._leadership = leadership
        self._signals = signals
        self._writer = writer
        self._jobs = jobs
        self._defaults = defaults
        self._key = key
        self._metrics = metrics

    async def run(self) -> None:
        """Act whenever this process is the leader, until cancelled."""
        await self._watch.synced()
        await self._leadership.while_leading(self._act)

    async def _act(self) -> None:
        """One term: its state begins empty and ends with it."""
        events = EventReader(self._list_events)
        logs = LogReader(
            lambda namespace, pod, name: read_log(self._client, namespace, pod, container=name)
        )
        reconciler = Reconciler(
            self._watch,
            signals=self._signals,
            writer=self._writer,
            events=events,
            logs=logs,
            jobs=self._jobs,
            node_lost_seconds=lambda: self._defaults().node_lost_seconds,
            server_time=self._client.now,
            sign=partial(write_ends, key=self._key),
            metrics=self._metrics,
            pause_of=self._watch.pause_of,
        )

        def wake_next(namespace: str) -> None:
            for run in self._watch.runs_without_room(namespace)[:AT_ONCE]:
                with surviving("a signal that there may be room in a quota", about=run):
                    self._loop.wake(run, News.AWAITED_CHANGED, background=True)

        self._watch.subscribe(reconciler.wake, on_room=wake_next)
        logger.info("the observer acts: this process is the leader")
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (reconciler, events, logs):
                    tasks.create_task(part.run())
        finally:
            self._watch.unsubscribe()
            logger.info("the observer does not act any more")

    async def _list_events(self, namespace: str, subject_uid: str) -> list[Object]:
        """What the rules read of the Events on an object, or of a namespace; those that are too
        large, and what follows, are not read.
        """
        if subject_uid:
            return await list_events(self._client, namespace, {"metadata": {"uid": subject_uid}})
        events: list[Object] = []
        params = {"limit": PAGE}
        with suppress(PageTooLarge):
            for _ in range(MAX_PAGES):
                page = await self._client.page(EVENTS, namespace, max_bytes=PAGE_BYTES, **params)
                events.extend(slim_event(event) for event in page.items)
                if not page.token:
                    return events
                params["continue"] = page.token
        logger.warning(
            "a namespace has too many Events to be read",
            extra={"namespace": namespace, "read": len(events)},
        )
        return events
