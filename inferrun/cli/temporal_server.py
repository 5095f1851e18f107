"""Temporal as the doctor asks it: a seam of three questions, and the adapter that asks a real server."""

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
    """No server answers at the address, or it refuses the connection."""


class Refused(Exception):
    """The server does not let the asker see this."""


class TemporalServer(Protocol):
    """What the doctor asks."""

    async def has_namespace(self) -> bool:
        """Whether the namespace is there. Raises Unreachable, Refused."""

    async def search_attributes(self) -> dict[str, str]:
        """The custom search attributes with their types, such as Keyword. Raises Unreachable, Refused."""

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        """Who polls a task queue for `workflows` or `activities`. Raises Unreachable, Refused."""


class Frontend:
    """The server behind a connected client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def has_namespace(self) -> bool:
        """Whether the namespace is there."""
        try:
            await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _told(error) from error
        return True

    async def search_attributes(self) -> dict[str, str]:
        """The custom search attributes with their types."""
        try:
            found = await self._client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            raise _told(error) from error
        return {name: _type_name(number) for name, number in found.custom_attributes.items()}

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        """Who polls a task queue."""
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=KINDS[kind]
        )
        try:
            found = await self._client.workflow_service.describe_task_queue(request)
        except RPCError as error:
            raise _told(error) from error
        return [Poller(poller.identity, _seconds_since(poller.last_access_time)) for poller in found.pollers]


@dataclass(frozen=True)
class Connected:
    """A server that answers, and by which names."""

    server: TemporalServer
    address: str
    namespace: str


async def connect(*, address: str, namespace: str) -> Connected:
    """The server.

    What the environment or Temporal's own configuration file names comes first; `address` and `namespace` are used where
    they name nothing. Raises Unreachable.
    """
    settings = ClientConfig.load_client_connect_config()
    target = settings.get("target_host") or address
    settings["target_host"] = target
    settings["namespace"] = settings.get("namespace") or namespace or "default"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            client = await Client.connect(**settings, identity="inferrun-doctor")
    except (RuntimeError, TimeoutError, ValueError) as error:
        raise Unreachable(f"{target}: {_short(str(error)) or 'no answer in time'}") from error
    return Connected(Frontend(client), target, client.namespace)


def _short(text: str) -> str:
    """What the operating system said, where the connection's error holds it in its depths."""
    found = re.search(r'message: "([^"]+)"', text)
    return found[1] if found else text[:300]


def _told(error: RPCError) -> Exception:
    denied = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED)
    return Refused(error.message) if error.status in denied else Unreachable(f"{error.status.name}: {error.message}")


def _type_name(number: "IndexedValueType.ValueType") -> str:
    """`INDEXED_VALUE_TYPE_KEYWORD` as people write it, `Keyword`."""
    words = IndexedValueType.Name(number).removeprefix("INDEXED_VALUE_TYPE_").split("_")
    return "".join(word.capitalize() for word in words)


def _seconds_since(instant: Timestamp) -> float:
    return (datetime.now(UTC) - instant.ToDatetime(tzinfo=UTC)).total_seconds()
