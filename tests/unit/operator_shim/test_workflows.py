"""When the shim reports that it cannot start workflows."""

import asyncio

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from control.search_attributes import SearchAttributes
from inferrun.resources import parse_run
from operator_shim.workflows import STARTING, RunWorkflows
from tests.unit.launches import live_run
from tests.unit.operator_shim.observer.fakes import FakeTime


class Unavailable(Interceptor):
    """A server that starts no workflow."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 -- the library's name
        return _Rejects(next)


class _Rejects(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> None:  # type: ignore[override]  # noqa: A002 -- never returns
        raise RPCError("unavailable", RPCStatusCode.UNAVAILABLE, b"")


async def test_the_shim_is_ready_until_every_start_has_failed_for_a_while() -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True, interceptors=[Unavailable()])
    attributes = SearchAttributes(client, installation="tests")
    workflows = RunWorkflows(
        client, installation="tests", task_queue="tests", attributes=attributes
    )
    time = FakeTime(asyncio.get_running_loop())
    assert workflows.is_ready
    for is_ready in (True, False):
        with pytest.raises(RPCError):
            await workflows.ensure(parse_run(live_run()))
        assert workflows.is_ready is is_ready
        await time.pass_by(STARTING.tolerated, step=STARTING.tolerated)
