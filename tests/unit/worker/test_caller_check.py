"""Who may call an activity: whether a schedule is due is a question to Temporal's clock."""

from dataclasses import replace
from datetime import timedelta
from typing import NoReturn, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from inferrun.names import schedule_id
from inferrun.submission import WORKFLOW_TYPE, parse_submission
from tests.unit.objects import NOW, RUN
from worker.caller_check import CallerCheck
from workflows.activity_options import SUBMIT
from workflows.messages import SubmitInput


class NoSchedules:
    """Temporal, which knows no schedule."""

    def get_schedule_handle(self, _identity: str) -> "NoSchedules":
        return self

    async def describe(self) -> NoReturn:
        raise RPCError("there is none", RPCStatusCode.NOT_FOUND, b"")


@pytest.mark.parametrize(("early", "refusal"), [(9, "was not started by one"), (11, "when a run is due")])
async def test_a_run_is_due_by_the_clock_that_the_schedule_goes_by(early: int, refusal: str) -> None:
    """Temporal is a year ahead of this process."""
    due = NOW + timedelta(days=365)
    request = SubmitInput(
        submission=parse_submission({"namespace": RUN.namespace, "parent": {"name": RUN.name, "uid": RUN.uid}}),
        workflow_id=schedule_id(RUN),
        nominal_time=due.isoformat(),
    )
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info,
        activity_type=SUBMIT.name,
        workflow_type=WORKFLOW_TYPE,
        workflow_id=request.workflow_id,
        workflow_run_id="execution",
        is_local=True,
        started_time=due - timedelta(seconds=early),
    )
    check = CallerCheck(cast("Client", NoSchedules()), task_queue="tests", served=None)
    with pytest.raises(ApplicationError, match=refusal):
        await environment.run(check.check, request)
