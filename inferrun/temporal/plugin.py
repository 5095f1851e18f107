"""What shim, worker, client and replay tests share: the converter, and the sandbox's pass-through.

A history can only be read and replayed by those who agree on these, so they stand in one place.
"""

from dataclasses import replace

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

PASSED_THROUGH = ("pydantic", "pydantic_core", "annotated_types", "inferrun", "workflows")
"""Modules that workflow code shares with the process instead of loading them anew for each run: they are pure."""


def inferrun_plugin() -> SimplePlugin:
    """A new plugin; give it to `Client.connect`, which hands it on to workers, or to a `Replayer`."""
    return SimplePlugin("inferrun", data_converter=_converter, workflow_runner=_runner)


def _converter(given: DataConverter | None) -> DataConverter:
    if given is None or given is DataConverter.default:
        return pydantic_data_converter
    return replace(given, payload_converter_class=pydantic_data_converter.payload_converter_class)


def _runner(given: WorkflowRunner | None) -> WorkflowRunner:
    runner = given if isinstance(given, SandboxedWorkflowRunner) else SandboxedWorkflowRunner()
    return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*PASSED_THROUGH))
