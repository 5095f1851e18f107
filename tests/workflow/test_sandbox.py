"""The sandbox catches what workflow code must not do, in the definitions of the product and in what
they import.

All tests of workflows run in it; the deployed worker executes the same code without it.
"""

from datetime import timedelta
from importlib.util import find_spec

import pytest
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxedWorkflowRunner,
)

from tests.workflow import clock_reading
from tests.workflow.sandbox import PASSED_THROUGH, sandboxed_plugin
from tests.workflow.submissions import until

DEFINITIONS = (
    "workflows.cleanup",
    "workflows.inference_run",
    "workflows.launch_following",
    "workflows.submit",
)


@pytest.mark.parametrize("definition", clock_reading.ALL)
async def test_a_workflow_that_is_not_deterministic_fails(
    temporal: Client, task_queue: str, definition: type, caplog: pytest.LogCaptureFixture
) -> None:
    async with Worker(temporal, task_queue=task_queue, workflows=[definition]):
        handle = await temporal.start_workflow(
            definition.__name__,
            id=task_queue,
            task_queue=task_queue,
            run_timeout=timedelta(seconds=30),
        )
        await until(lambda: RestrictedWorkflowAccessError.__name__ in caplog.text)
        await handle.terminate()


@pytest.mark.parametrize("module", DEFINITIONS)
def test_the_products_workflow_definitions_are_not_passed_through(module: str) -> None:
    assert find_spec(module) is not None
    assert not any(module == name or module.startswith(f"{name}.") for name in PASSED_THROUGH)


def test_the_plugin_of_the_tests_does_not_disable_the_sandbox() -> None:
    runner = sandboxed_plugin().workflow_runner
    assert isinstance(runner, SandboxedWorkflowRunner)
    assert not runner.restrictions.passthrough_all_modules
