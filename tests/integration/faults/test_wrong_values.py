"""Wrong values of a run's parameters, from end to end: a real shim and worker reject each run, whoever has created it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from inferrun import wellknown
from inferrun.kube.objects import RUNS
from inferrun.submission import WORKFLOW_TYPE
from tests.faults.users import STORAGE, create_config, create_run
from tests.faults.world import World, until, world

pytestmark = pytest.mark.thorough

NAMESPACE = "values"
REPORTED_WITHIN = 10.0
BY_DAY = {
    "storage": {**STORAGE, "input": {"file": {"claimName": "data", "path": "in/$(params.day)"}}},
    "parameters": [{"name": "day", "required": True, "pattern": "[0-9]{8}", "description": "the day to predict"}],
}
PATTERN = 'spec.parameters.day is "../x"; must match the pattern [0-9]{8} that InferenceConfig by-day declares'
REQUIRED = "spec.parameters.day is not set; InferenceConfig by-day requires it: the day to predict"
UNKNOWN = 'spec.parameters.dya is "1"; InferenceConfig by-day declares no such parameter, did you mean day?'


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        started = await stack.enter_async_context(world(tmp_path, behave=None))
        await stack.enter_async_context(started.installation(NAMESPACE))
        await create_config(started.api, NAMESPACE, "by-day", **BY_DAY)
        await create_run(started.api, NAMESPACE, "first", config="by-day", parameters={"day": "../x"})
        await reported(started, "first", PATTERN, seconds=120)  # the processes have started
        yield started


async def reported(ground: World, name: str, text: str, *, seconds: float = REPORTED_WITHIN) -> None:
    """Wait until a run has failed, and its message contains the text."""

    def status() -> dict[str, str]:
        return (ground.recorder.run_named(NAMESPACE, name) or {}).get("status") or {}

    def is_so() -> bool:
        found = status()
        return (found.get("phase"), found.get("reason")) == ("Failed", "InvalidSpec") and text in found["message"]

    await until(f"{name} to be rejected", is_so, seconds=seconds, now=status)


async def test_runs_of_users_programs_and_back_fills_are_rejected_with_field_value_and_what_is_allowed(
    ground: World,
) -> None:
    api = ground.api
    await create_run(api, NAMESPACE, "missing", config="by-day")
    await reported(ground, "missing", REQUIRED)
    await create_run(api, NAMESPACE, "unknown", config="by-day", parameters={"day": "20261121", "dya": "1"})
    await reported(ground, "unknown", UNKNOWN)

    asked = {"namespace": NAMESPACE, "configRef": "by-day", "parameters": {"day": "../x"}}
    with pytest.raises(WorkflowFailureError) as refused:
        await ground.temporal.execute_workflow(WORKFLOW_TYPE, asked, id="program", task_queue=NAMESPACE)
    cause = refused.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, PATTERN in cause.message) == ("InvalidSpec", True), cause.message

    wrong = {"day": "../x"}
    await create_run(api, NAMESPACE, "nightly", config="by-day", schedule="0 2 * * *", suspend=True, parameters=wrong)
    day = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T23:00:00Z"}
    march = {"metadata": {"name": "march"}, "spec": {"backfill": {"schedule": "nightly", **day}}}
    await api.create(RUNS, NAMESPACE, {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, **march})
    await reported(ground, "nightly-20260301020000", PATTERN, seconds=2 * REPORTED_WITHIN)
