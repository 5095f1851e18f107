"""The composition root of the worker: builds the clients, hands them to the activities, runs the two Temporal workers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from temporalio.client import Client
from temporalio.worker import Worker

from activities.cluster.job_watch import JobWatch
from activities.cluster.publisher import Publisher
from activities.ending import Ender
from activities.following import Follower
from activities.launching import Installation, Launcher
from activities.rules import manifests
from activities.submissions import Submissions
from inferrun.control.installation import installation_id
from inferrun.control.process import work_until
from inferrun.control.run_defaults_folder import DefaultsFolder
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.runs import RunStore
from inferrun.temporal.connection import connect as connect_temporal
from inferrun.temporal.connection import register_search_attributes
from worker.settings import WorkerSettings
from workflows.activity_options import follower_queue
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import InferenceRun
from workflows.submit import SubmitInferenceRun

logger = logging.getLogger(__name__)


class WorkerProcess:
    """Everything that one worker process runs."""

    def __init__(
        self, settings: WorkerSettings, *, api: KubeClient, client: Client, installation: str, defaults: DefaultsFolder
    ) -> None:
        self._settings = settings
        self._defaults = defaults
        common = settings.common
        runs = RunStore(api)
        publisher = Publisher(api, runs, reporter=common.identity)
        selector = manifests.selector(installation)
        self._watch = JobWatch(api, namespace=common.watch_namespace, selector=selector)
        submissions = Submissions(
            api,
            client,
            namespaces=frozenset({common.watch_namespace}) if common.watch_namespace else None,
        )
        launcher = Launcher(
            api,
            runs,
            installation=Installation(
                id=installation,
                runner_account=settings.runner_account,
                temporal_namespace=client.namespace,
                ui_url=common.ui_url,
            ),
            defaults=defaults.current,
        )
        ender = Ender(
            api,
            runs,
            publisher=publisher,
            client=client,
            task_queue=common.task_queue,
            installation=installation,
            ui_url=common.ui_url,
            prune=submissions.prune_children,
        )
        follower = Follower(api, watch=self._watch, publisher=publisher)
        self._main = Worker(
            client,
            task_queue=common.task_queue,
            workflows=[InferenceRun, InferenceRunCleanup, SubmitInferenceRun],
            activities=[
                launcher.launch_job,
                ender.stop_job,
                ender.publish_status,
                ender.record_outcome,
                ender.delete_run,
                submissions.submit_run,
                submissions.read_run,
                submissions.cancel_run,
                submissions.delete_schedule,
            ],
            max_concurrent_activities=settings.activity_slots,
            max_cached_workflows=settings.cached_workflows,
            graceful_shutdown_timeout=settings.shutdown_seconds,
        )
        self._followers = Worker(
            client,
            task_queue=follower_queue(common.task_queue),
            activities=[follower.follow_job],
            max_concurrent_activities=settings.follower_slots,
        )

    @classmethod
    @asynccontextmanager
    async def start(cls, settings: WorkerSettings) -> AsyncIterator[Self]:
        """Connect to both servers; close the connections in the end."""
        common = settings.common
        api = await connect(kubeconfig=common.kubeconfig)
        try:
            installation = await installation_id(api, release=common.release)
            client = await connect_temporal(identity=f"inferrun/{installation}/{common.identity}")
            await register_search_attributes(client)
            defaults = DefaultsFolder(settings.defaults_folder)
            yield cls(settings, api=api, client=client, installation=installation, defaults=defaults)
        finally:
            await api.close()

    @property
    def is_ready(self) -> bool:
        """Whether both workers poll and the watch has been filled."""
        return self._watch.is_synced and self._main.is_running and self._followers.is_running

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until told to stop; what ends a part ends the process."""
        background = [asyncio.create_task(self._watch.run()), asyncio.create_task(self._defaults.run())]
        async with self._main, self._followers:
            logger.info("the worker serves", extra={"task_queue": self._settings.common.task_queue})
            await work_until(stopped, background)
