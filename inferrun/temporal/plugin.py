"""What the shim, the worker, clients and replay tests share: the data converter and the runner of workflow code.

A history can be read and replayed only by processes that agree on the converter.
"""

from dataclasses import replace

from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner

from inferrun.temporal.bounds import BoundedFailureConverter, EncodedFailureConverter, bounded_data_converter


def inferrun_plugin() -> SimplePlugin:
    """A new plugin, for `Client.connect`, which passes it on to workers, or for a `Replayer`.

    Without the sandbox, in which the tests execute workflow code (docs/decisions/0016-workflows-are-sandboxed-in-tests-only.md).
    """
    return SimplePlugin("inferrun", data_converter=_converter, workflow_runner=UnsandboxedWorkflowRunner())


def _converter(given: DataConverter | None) -> DataConverter:
    if given is None or given is DataConverter.default:
        return bounded_data_converter
    is_encoded = given.payload_codec is not None
    return replace(
        given,
        payload_converter_class=bounded_data_converter.payload_converter_class,
        failure_converter_class=EncodedFailureConverter if is_encoded else BoundedFailureConverter,
    )
