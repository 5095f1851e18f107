"""Batch inference on Kubernetes: the library that programs, runner images and the product's own processes share.

The names below are its public interface, together with these modules:

    inferrun.client               start runs from a program and wait for their results (extra `client`)
    inferrun.resources            all models of both resources; `.validation` checks them (extra `validation`)
    inferrun.plugins              what an implementation of a store, protocol or format needs
    inferrun.wellknown            group, version, kinds, labels and annotations

Importing `inferrun` is cheap: each name is loaded on first use, so that a runner does not pay for models of resources.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferrun.contract import Contract, dump_contract
    from inferrun.exitcodes import ExitCode
    from inferrun.names import (
        job_base_name,
        job_name,
        run_workflow_id,
        schedule_id,
        scheduled_run_name,
        submitted_run_name,
    )
    from inferrun.reasons import Phase, Reason
    from inferrun.resources import (
        InferenceConfig,
        InferenceConfigSpec,
        InferenceConfigStatus,
        InferenceRun,
        InferenceRunSpec,
        InferenceRunStatus,
        parse_config,
        parse_run,
    )
    from inferrun.run_ref import RunRef
    from inferrun.run_result import RunResult
    from inferrun.runner_report import Delivery, Output, RecordCounts, RunnerResult, dump_result
    from inferrun.submission import InvalidSubmission, Submission, parse_submission

__all__ = [
    "Contract",
    "Delivery",
    "ExitCode",
    "InferenceConfig",
    "InferenceConfigSpec",
    "InferenceConfigStatus",
    "InferenceRun",
    "InferenceRunSpec",
    "InferenceRunStatus",
    "InvalidSubmission",
    "Output",
    "Phase",
    "Reason",
    "RecordCounts",
    "RunRef",
    "RunResult",
    "RunnerResult",
    "Submission",
    "dump_contract",
    "dump_result",
    "job_base_name",
    "job_name",
    "parse_config",
    "parse_run",
    "parse_submission",
    "run_workflow_id",
    "schedule_id",
    "scheduled_run_name",
    "submitted_run_name",
]

_MODULES = {
    "Contract": "inferrun.contract",
    "dump_contract": "inferrun.contract",
    "ExitCode": "inferrun.exitcodes",
    "job_base_name": "inferrun.names",
    "job_name": "inferrun.names",
    "run_workflow_id": "inferrun.names",
    "schedule_id": "inferrun.names",
    "scheduled_run_name": "inferrun.names",
    "submitted_run_name": "inferrun.names",
    "Phase": "inferrun.reasons",
    "Reason": "inferrun.reasons",
    "InferenceConfig": "inferrun.resources",
    "InferenceConfigSpec": "inferrun.resources",
    "InferenceConfigStatus": "inferrun.resources",
    "InferenceRun": "inferrun.resources",
    "InferenceRunSpec": "inferrun.resources",
    "InferenceRunStatus": "inferrun.resources",
    "parse_config": "inferrun.resources",
    "parse_run": "inferrun.resources",
    "RunRef": "inferrun.run_ref",
    "RunResult": "inferrun.run_result",
    "Delivery": "inferrun.runner_report",
    "Output": "inferrun.runner_report",
    "RecordCounts": "inferrun.runner_report",
    "RunnerResult": "inferrun.runner_report",
    "dump_result": "inferrun.runner_report",
    "InvalidSubmission": "inferrun.submission",
    "Submission": "inferrun.submission",
    "parse_submission": "inferrun.submission",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'inferrun' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
