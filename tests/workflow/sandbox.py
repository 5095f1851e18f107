"""The sandbox in which tests execute workflow code: it rejects what is not deterministic, such as
`datetime.now()`.

The deployed worker executes the code that they have tested without it, because it costs a third of
the worker's CPU time.
"""

from temporalio.plugin import SimplePlugin
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from inferrun.temporal.plugin import inferrun_plugin

PASSED_THROUGH = (
    "inferrun.contract",
    "inferrun.exitcodes",
    "inferrun.fields",
    "inferrun.launches.retry_policy",
    "inferrun.launches.run_clock",
    "inferrun.launches.verdict",
    "inferrun.names",
    "inferrun.placeholders",
    "inferrun.reasons",
    "inferrun.resources",
    "inferrun.run_ref",
    "inferrun.run_result",
    "inferrun.runner_report",
    "inferrun.stores",
    "inferrun.submission",
    "inferrun.suggestions",
    "inferrun.text",
    "inferrun.wellknown",
    "workflows.activity_options",
    "workflows.messages",
    "workflows.run_state",
    "workflows.signals",
)
"""Pure modules, which workflows share with the process. A test keeps clock, randomness, environment
and I/O out of them.

Everything else that a workflow imports from us is loaded anew for each workflow inside the sandbox,
which rejects calls such as `datetime.now()`: the workflow definitions, and `inferrun.timestamps`
with `utc_now`. Costs and alternatives are in
docs/decisions/0012-the-sandbox-guards-workflow-definitions.md.
"""


def sandboxed_plugin() -> SimplePlugin:
    """The product's plugin, with the sandbox."""
    plugin = inferrun_plugin()
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    plugin.workflow_runner = SandboxedWorkflowRunner(restrictions=restrictions)
    return plugin
