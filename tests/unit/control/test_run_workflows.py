"""A wake-up reaches the workflow that executes the run, and costs one request if that is the run's own."""

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, SignalWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from control.temporal_calls import wake_run, workflow_ids
from inferrun.run_ref import RunRef
from workflows.messages import LOOK_AGAIN_SIGNAL

RUN = RunRef(namespace="team-a", name="first", uid="5be07ada-0000-0000-0000-000000000000")
OWN, RECOVERY = workflow_ids(RUN)


class Server(Interceptor):
    """Answers signals as Temporal does if these workflows are open; `asked` are the ids of all of them."""

    def __init__(self, *opened: str) -> None:
        self.opened = opened
        self.asked: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 -- the library's name
        return _Answers(next, self)


class _Answers(OutboundInterceptor):
    def __init__(self, following: OutboundInterceptor, server: Server) -> None:
        super().__init__(following)
        self._server = server

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:  # noqa: A002 -- the library's name
        self._server.asked.append(input.id)
        if input.id not in self._server.opened:
            raise RPCError("workflow execution already completed", RPCStatusCode.NOT_FOUND, b"")


@pytest.mark.parametrize(
    ("opened", "asked"),
    [((OWN,), [OWN]), ((RECOVERY,), [OWN, RECOVERY]), ((), [OWN, RECOVERY])],
    ids=["own", "recovery", "none"],
)
async def test_the_first_open_workflow_of_the_run_is_woken(opened: tuple[str, ...], asked: list[str]) -> None:
    server = Server(*opened)
    client = await Client.connect("127.0.0.1:1", lazy=True, interceptors=[server])
    await wake_run(client, RUN, LOOK_AGAIN_SIGNAL)
    assert server.asked == asked
