"""The queries to Temporal that doctor needs."""

import asyncio
import re
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import TypeVar

from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from inferrun.cli.programs import Poller
from inferrun.temporal.connection import TemporalUnavailable

ANSWER_SECONDS = 10.0
KINDS = {
    "workflows": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activities": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}

Response = TypeVar("Response")


class TemporalServer:
    """The server of a connected client. Requests raise TemporalUnavailable if it does not respond
    or does not allow them."""

    def __init__(self, client: Client, *, address: str) -> None:
        self._client = client
        self.address = address
        self.namespace = client.namespace

    async def has_namespace(self) -> bool:
        """Whether the namespace exists."""
        try:
            await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailable(f"{error.status.name}: {error.message}") from error
        return True

    async def search_attributes(self) -> dict[str, str]:
        """The custom search attributes with their types, such as Keyword."""
        request = ListSearchAttributesRequest(namespace=self.namespace)
        found = await _answered(self._client.operator_service.list_search_attributes(request))
        names = {
            name: IndexedValueType.Name(number) for name, number in found.custom_attributes.items()
        }
        return {
            name: kind.removeprefix("INDEXED_VALUE_TYPE_").title().replace("_", "")
            for name, kind in names.items()
        }

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        """The pollers of a task queue for `workflows` or `activities`."""
        request = DescribeTaskQueueRequest(
            namespace=self.namespace, task_queue=TaskQueue(name=queue), task_queue_type=KINDS[kind]
        )
        found = await _answered(self._client.workflow_service.describe_task_queue(request))
        now = datetime.now(UTC)
        return [
            Poller(
                poller.identity,
                (now - poller.last_access_time.ToDatetime(tzinfo=UTC)).total_seconds(),
            )
            for poller in found.pollers
        ]


async def _answered(request: Awaitable[Response]) -> Response:
    try:
        return await request
    except RPCError as error:
        raise TemporalUnavailable(f"{error.status.name}: {error.message}") from error


async def connect(*, address: str, namespace: str) -> TemporalServer:
    """Connect to the server in the environment or in Temporal's configuration file, or else to
    `address`.

    The namespace is selected in the same way. Raises TemporalUnavailable.
    """
    settings = ClientConfig.load_client_connect_config()
    target = settings.get("target_host") or address
    settings["target_host"] = target
    settings["namespace"] = settings.get("namespace") or namespace or "default"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            client = await Client.connect(**settings, identity="inferrun-doctor")
    except (RuntimeError, TimeoutError, ValueError) as error:
        # that of the operating system, if there is one
        of_system = re.search(r'message: "([^"]+)"', str(error))
        text = of_system[1] if of_system else str(error)[:300]
        raise TemporalUnavailable(f"{target}: {text or 'no response in time'}") from error
    return TemporalServer(client, address=target)
