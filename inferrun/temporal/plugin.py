"""What the shim, the worker, clients and replay tests share: the data converter and the runner of workflow code.

A history can be read and replayed only by processes that agree on the converter.
"""

from dataclasses import replace

from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from inferrun.temporal.bounds import BoundedFailureConverter, EncodedFailureConverter, bounded_data_converter

PASSED_THROUGH = (
    "inferrun.contract",
    "inferrun.exitcodes",
    "inferrun.names",
    "inferrun.reasons",
    "inferrun.resources",
    "inferrun.run_ref",
    "inferrun.run_result",
    "inferrun.runner_report",
    "inferrun.service_ref",
    "inferrun.submission",
    "inferrun.text",
    "inferrun.wellknown",
    "workflows.activity_options",
    "workflows.messages",
    "workflows.retry_policy",
    "workflows.run_clock",
    "workflows.run_state",
    "workflows.signals",
)
"""Pure modules, which workflows share with the process. A test keeps clock, randomness, environment and I/O out of them.

Everything else that a workflow imports from us is loaded anew for each workflow inside the sandbox, which rejects calls
such as `datetime.now()`: the workflow definitions, and `inferrun.timestamps` with `utc_now`. Costs and alternatives are in
docs/decisions/0012-the-sandbox-guards-workflow-definitions.md.
"""


def inferrun_plugin(*, is_sandboxed: bool = True) -> SimplePlugin:
    """A new plugin, for `Client.connect`, which passes it on to workers, or for a `Replayer`.

    The sandbox rejects what is not deterministic, at a third of the worker's CPU time. All tests run in it; the deployed
    worker executes the code that they have tested without it.
    """
    runner = _sandboxed_runner if is_sandboxed else UnsandboxedWorkflowRunner()
    return SimplePlugin("inferrun", data_converter=_converter, workflow_runner=runner)


def _converter(given: DataConverter | None) -> DataConverter:
    if given is None or given is DataConverter.default:
        return bounded_data_converter
    is_encoded = given.payload_codec is not None
    return replace(
        given,
        payload_converter_class=bounded_data_converter.payload_converter_class,
        failure_converter_class=EncodedFailureConverter if is_encoded else BoundedFailureConverter,
    )


def _sandboxed_runner(given: WorkflowRunner | None) -> WorkflowRunner:
    runner = given if isinstance(given, SandboxedWorkflowRunner) else SandboxedWorkflowRunner()
    return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*PASSED_THROUGH))
