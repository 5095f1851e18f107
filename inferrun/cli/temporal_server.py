"""The queries to Temporal that doctor needs, and their implementation for a real server."""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from inferrun.cli.pollers import Poller

ANSWER_SECONDS = 10.0
KINDS = {
    "workflows": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activities": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}


class Unreachable(Exception):
    """No server responds at the address, or it rejects the connection."""


class Denied(Exception):
    """The server does not allow the query."""


class TemporalServer(Protocol):
    """The queries that doctor needs."""

    async def has_namespace(self) -> bool:
        """Whether the namespace exists. Raises Unreachable, Denied."""

    async def search_attributes(self) -> dict[str, str]:
        """The custom search attributes with their types, such as Keyword. Raises Unreachable, Denied."""

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        """The pollers of a task queue for `workflows` or `activities`. Raises Unreachable, Denied."""


class Frontend:
    """The server of a connected client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def has_namespace(self) -> bool:
        """Whether the namespace exists."""
        try:
            await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _translate(error) from error
        return True

    async def search_attributes(self) -> dict[str, str]:
        """The custom search attributes with their types."""
        try:
            found = await self._client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            raise _translate(error) from error
        return {name: _type_name(number) for name, number in found.custom_attributes.items()}

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        """The pollers of a task queue."""
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=KINDS[kind]
        )
        try:
            found = await self._client.workflow_service.describe_task_queue(request)
        except RPCError as error:
            raise _translate(error) from error
        return [Poller(poller.identity, _seconds_since(poller.last_access_time)) for poller in found.pollers]


@dataclass(frozen=True)
class Connected:
    """A connected server, with its address and namespace."""

    server: TemporalServer
    address: str
    namespace: str


async def connect(*, address: str, namespace: str) -> Connected:
    """Connect to the server in the environment or in Temporal's configuration file, or else to `address`.

    The namespace is selected in the same way. Raises Unreachable.
    """
    settings = ClientConfig.load_client_connect_config()
    target = settings.get("target_host") or address
    settings["target_host"] = target
    settings["namespace"] = settings.get("namespace") or namespace or "default"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            client = await Client.connect(**settings, identity="inferrun-doctor")
    except (RuntimeError, TimeoutError, ValueError) as error:
        raise Unreachable(f"{target}: {_short(str(error)) or 'no response in time'}") from error
    return Connected(Frontend(client), target, client.namespace)


def _short(text: str) -> str:
    """The message of the operating system, if the error of the connection contains one."""
    found = re.search(r'message: "([^"]+)"', text)
    return found[1] if found else text[:300]


def _translate(error: RPCError) -> Exception:
    denied = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED)
    return Denied(error.message) if error.status in denied else Unreachable(f"{error.status.name}: {error.message}")


def _type_name(number: "IndexedValueType.ValueType") -> str:
    """The usual name of a type, such as `Keyword` for `INDEXED_VALUE_TYPE_KEYWORD`."""
    words = IndexedValueType.Name(number).removeprefix("INDEXED_VALUE_TYPE_").split("_")
    return "".join(word.capitalize() for word in words)


def _seconds_since(instant: Timestamp) -> float:
    return (datetime.now(UTC) - instant.ToDatetime(tzinfo=UTC)).total_seconds()
