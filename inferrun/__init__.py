"""Batch inference on Kubernetes: the library that programs, runner images and the product's own
processes share.

The names below are its public interface, together with these modules:

    inferrun.client               start runs from a program and wait for their results (extra `client`)
    inferrun.resources            all models of both resources; `.validation` checks them (extra `validation`)
    inferrun.plugins              what an implementation of a store, protocol or format needs
    inferrun.wellknown            group, version, kinds, labels and annotations

Importing `inferrun` is cheap: each name is loaded on first use, so that a runner does not pay for
models of resources.
"""

from typing import TYPE_CHECKING

from inferrun.lazy_exports import lazy_exports

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

_MODULES = (
    "contract",
    "exitcodes",
    "names",
    "reasons",
    "run_ref",
    "runner_report",
    "run_result",
    "resources",
    "submission",
)
"""Where the names are, cheapest import first."""


__getattr__ = lazy_exports(__name__, __all__, modules=_MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
