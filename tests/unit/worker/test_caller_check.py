"""Who may call which activity, and about what."""

from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from inferrun.names import cleanup_workflow_id, recover_workflow_id, run_workflow_id
from inferrun.submission import WORKFLOW_TYPE, parse_submission
from tests.unit.objects import RUN
from worker.caller_check import CallerCheck
from workflows.activity_options import (
    CHECK_ORIGIN,
    DELETE_RUN,
    EDIT_RUN,
    LAUNCH,
    READ_RUN,
    SUBMIT,
    ActivityOptions,
)
from workflows.messages import (
    CLEANUP_WORKFLOW,
    RUN_WORKFLOW,
    DeleteRunInput,
    EditInput,
    LaunchInput,
    OriginInput,
    RunEdit,
    RunRequest,
    SubmitInput,
)


async def check(
    argument: object, of: ActivityOptions, workflow: str, identity: str, **info: Any
) -> None:
    """Whether a workflow of that type and id may call an activity with this argument."""
    environment = ActivityEnvironment()
    called = {
        "activity_type": of.name,
        "workflow_type": workflow,
        "workflow_id": identity,
        "is_local": True,
    }
    environment.info = replace(
        environment.info, **{**called, "workflow_run_id": "execution", **info}
    )
    checks = CallerCheck(cast("Client", None), task_queue="tests", served={RUN.namespace})
    await environment.run(checks.check, argument)


OWN = run_workflow_id(RUN)
ODD = RUN.model_copy(update={"name": "iris?x=1"})
MINE = SubmitInput(
    submission=parse_submission({"namespace": RUN.namespace, "configRef": "a"}), workflow_id="mine"
)
SUSPEND = EditInput(run=RUN, edit=RunEdit.SUSPEND)
FAR_RUN = RUN.model_copy(update={"namespace": "kube-system"})


@pytest.mark.parametrize("identity", [OWN, recover_workflow_id(OWN)])
async def test_the_workflow_of_a_run_may_act_on_it(identity: str) -> None:
    await check(LaunchInput(run=RUN), LAUNCH, RUN_WORKFLOW, identity)
    await check(SUSPEND, EDIT_RUN, RUN_WORKFLOW, identity)


async def test_clean_ups_and_submissions_may_call_their_own_activities() -> None:
    await check(DeleteRunInput(run=RUN), DELETE_RUN, CLEANUP_WORKFLOW, cleanup_workflow_id(OWN))
    await check(MINE, SUBMIT, WORKFLOW_TYPE, "mine")
    await check(RunRequest(run=RUN), READ_RUN, WORKFLOW_TYPE, "any")
    await check(SUSPEND, EDIT_RUN, WORKFLOW_TYPE, "any")


@pytest.mark.parametrize(
    ("argument", "of", "workflow", "identity", "refusal"),
    [
        (
            LaunchInput(run=RUN),
            LAUNCH,
            RUN_WORKFLOW,
            "other",
            "only the workflow of run models/iris",
        ),
        (LaunchInput(run=RUN), LAUNCH, "Another", OWN, "only the workflow of run models/iris"),
        (
            LaunchInput(run=ODD),
            LAUNCH,
            RUN_WORKFLOW,
            run_workflow_id(ODD),
            "a run that cannot exist",
        ),
        (None, LAUNCH, RUN_WORKFLOW, OWN, "the argument names no run"),
        (DeleteRunInput(run=RUN), DELETE_RUN, CLEANUP_WORKFLOW, "other", "may delete run"),
        (
            DeleteRunInput(run=RUN),
            DELETE_RUN,
            WORKFLOW_TYPE,
            cleanup_workflow_id(OWN),
            "may delete run",
        ),
        (
            RunRequest(run=RUN),
            READ_RUN,
            RUN_WORKFLOW,
            OWN,
            "only workflows of type SubmitInferenceRun",
        ),
        (SUSPEND, EDIT_RUN, RUN_WORKFLOW, "other", "only the workflow of run models/iris"),
        (SUSPEND, EDIT_RUN, "Another", OWN, "only workflows of type SubmitInferenceRun"),
        (
            EditInput(run=FAR_RUN, edit=RunEdit.RESUME),
            EDIT_RUN,
            RUN_WORKFLOW,
            run_workflow_id(FAR_RUN),
            "not served",
        ),
        (EditInput(run=FAR_RUN, edit=RunEdit.RESUME), EDIT_RUN, WORKFLOW_TYPE, "any", "not served"),
        (MINE, SUBMIT, WORKFLOW_TYPE, "other", "the submission is that of workflow 'mine'"),
        (
            RunRequest(run=FAR_RUN),
            READ_RUN,
            WORKFLOW_TYPE,
            "any",
            "not served by this installation; allowed: models",
        ),
        (None, SUBMIT, WORKFLOW_TYPE, "any", "the argument names no namespace"),
        (
            OriginInput(continued_run_id="x"),
            CHECK_ORIGIN,
            "Another",
            "any",
            "only workflows of this installation",
        ),
    ],
)
async def test_any_other_caller_is_refused(
    argument: object, of: ActivityOptions, workflow: str, identity: str, refusal: str
) -> None:
    with pytest.raises(ApplicationError, match=refusal) as refused:
        await check(argument, of, workflow, identity)
    assert refused.value.non_retryable
