"""The composition root of the shim: creates the clients and passes them to the other modules."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from temporalio.client import Client

from activities.cluster.events import EventRecorder
from activities.cluster.refusal_events import RefusalEvents
from inferrun.control.installation import installation_id
from inferrun.control.process import Part, work_until
from inferrun.control.run_defaults_folder import DefaultsFolder
from inferrun.control.territory import Territory
from inferrun.kube.client import KubeClient, connect
from inferrun.temporal.connection import connect as connect_temporal
from inferrun.temporal.monitor import TemporalMonitor
from inferrun.temporal.rotation import rotations_of
from inferrun.temporal.search_attributes import SearchAttributes
from operator_shim.schedules import Schedules
from operator_shim.settings import ShimSettings
from operator_shim.shim import Shim
from operator_shim.workflows import RunWorkflows

logger = logging.getLogger(__name__)


class ShimProcess:
    """Everything that a shim process runs."""

    def __init__(
        self, settings: ShimSettings, *, api: KubeClient, client: Client, installation: str, defaults: DefaultsFolder
    ) -> None:
        common = settings.common
        self._defaults = defaults
        self._monitor = TemporalMonitor(client)
        self._attributes = SearchAttributes(client, installation=installation)
        self._rotations = rotations_of(client)
        self._workflows = RunWorkflows(
            client, installation=installation, task_queue=common.task_queue, attributes=self._attributes
        )
        self._territory = Territory(
            api,
            watched=common.watched,
            installation=installation,
            report=RefusalEvents(EventRecorder(api, reporter=common.identity, component="shim")).report,
        )
        self._shim = Shim(
            api,
            workflows=self._workflows,
            schedules=Schedules(
                api, client, installation=installation, task_queue=common.task_queue, attributes=self._attributes
            ),
            namespaces=common.watched,
            served=self._territory,
            workers=settings.workers,
            resync_seconds=settings.resync_seconds,
            defaults=defaults.current,
            runner_account=settings.runner_account,
            identity=common.identity,
        )
        self._territory.subscribe(self._shim.begin)

    @classmethod
    @asynccontextmanager
    async def start(cls, settings: ShimSettings) -> AsyncIterator[Self]:
        """Connect to the API server; close the connection on exit. Temporal may be unreachable: runs are accepted anyway."""
        common = settings.common
        api = await connect(kubeconfig=common.kubeconfig)
        try:
            installation = await installation_id(api, common)
            client = await connect_temporal(
                identity=f"inferrun-shim/{installation}/{common.identity}", lazy=True, codec_keys=common.codec_keys
            )
            defaults = DefaultsFolder(settings.defaults_folder)
            yield cls(settings, api=api, client=client, installation=installation, defaults=defaults)
        finally:
            await api.close()

    @property
    def is_ready(self) -> bool:
        """Whether all watched resources have been listed, Temporal answers and workflows can be started."""
        is_serving = self._shim.is_ready and self._territory.is_ready
        return is_serving and self._monitor.is_ready and self._workflows.is_ready

    @property
    def refusals(self) -> str:
        """The namespaces that another installation serves."""
        return self._territory.refusals

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Watch until `stopped` is set; if a task fails, the process ends."""
        logger.info("shim started")
        parts: list[Part] = [
            self._territory,
            self._shim,
            self._defaults,
            self._monitor,
            self._attributes,
            *self._rotations,
        ]
        await work_until(stopped, [asyncio.create_task(part.run()) for part in parts])
