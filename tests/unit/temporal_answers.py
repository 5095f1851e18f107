"""A Temporal server that answers with the messages it was given: statuses, for example, that the
SDK does not know."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.workflow.v1 import (
    WorkflowExecutionConfig,
    WorkflowExecutionExtendedInfo,
    WorkflowExecutionInfo,
)
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

from inferrun.temporal.plugin import inferrun_plugin

PAUSED = 8
UNHEARD_OF = 99

Answers = Mapping[str, Callable[[Any], Message]]  # Any: the request, by the call's name


class AnsweringService(ServiceClient):
    """Calls what it was given for the name of the request, such as `describe_workflow_execution`,
    and notes the requests."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(ConnectConfig(target_host="nowhere"))
        self._answers = answers
        self.requests: list[tuple[str, Any]] = []

    @property
    def worker_service_client(self) -> ServiceClient:  # type: ignore[override]  # a private type of the SDK
        return self

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """There is none."""

    def update_api_key(self, api_key: str | None) -> None:
        """There is none."""

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Any],  # Any: as the SDK's own
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> Any:
        self.requests.append((rpc, req))
        answer = self._answers.get(rpc)
        return resp_type() if answer is None else answer(req)


def answering(**answers: Callable[[Any], Message]) -> tuple[Client, AnsweringService]:
    """A client of such a server; what it has no answer for is answered with an empty message."""
    service = AnsweringService(answers)
    plugins = [inferrun_plugin()]
    return Client(service, namespace="default", plugins=plugins), service


def execution(
    identity: str, *, status: int, kind: str = "InferenceRun", queue: str = "tests"
) -> WorkflowExecutionInfo:
    """An execution as the server lists it."""
    return WorkflowExecutionInfo(
        execution=WorkflowExecution(workflow_id=identity, run_id=f"execution of {identity}"),
        type=WorkflowType(name=kind),
        task_queue=queue,
        status=status,  # type: ignore[arg-type]  # one that the SDK does not know
    )


def described(
    info: WorkflowExecutionInfo, *, by: str = "anna", why: str = "an incident"
) -> Message:
    """The answer about that execution."""
    extended = WorkflowExecutionExtendedInfo()
    if info.status == PAUSED:
        extended.pause_info.identity, extended.pause_info.reason = by, why
        extended.pause_info.paused_time.FromJsonString("2026-11-21T09:00:00Z")
    return DescribeWorkflowExecutionResponse(
        workflow_execution_info=info,
        workflow_extended_info=extended,
        execution_config=WorkflowExecutionConfig(),
    )


def not_found() -> RPCError:
    return RPCError("there is none", RPCStatusCode.NOT_FOUND, b"")
