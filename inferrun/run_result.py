"""The result of a run as programs get it: what the workflow of a run, and of a submission, returns.

Field names are recorded in histories and read by other programs, so they are never renamed.
"""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.runner_report import Delivery, Output, RecordCounts, TokenUsage


class RunResult(BaseModel):
    """How a run ended. In camelCase as JSON, like the resources, because programs in other languages read it."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    namespace: str
    name: str
    uid: str
    phase: Phase
    reason: Reason
    message: str = ""
    exit_code: int | None = None
    records: RecordCounts | None = None
    usage: TokenUsage | None = None
    delivery: Delivery | None = None
    output: Output | None = None
    duration: str = ""


def result_of(run: InferenceRun) -> RunResult:
    """The result of a run that has ended, from its status."""
    status = run.status
    return RunResult(
        namespace=run.metadata.namespace,
        name=run.metadata.name,
        uid=run.metadata.uid,
        phase=status.phase or Phase.FAILED,
        reason=known_reason(status.reason),
        message=status.message or "",
        exit_code=status.exit_code,
        records=status.records,
        usage=status.usage,
        delivery=status.delivery,
        output=status.output,
        duration=status.duration or "",
    )


def deleted_result(run: RunRef) -> RunResult:
    """The result of a run that was deleted before it ended."""
    return RunResult(
        namespace=run.namespace,
        name=run.name,
        uid=run.uid,
        phase=Phase.FAILED,
        reason=Reason.RUN_DELETED,
        message=f"InferenceRun {run} was deleted before it ended",
    )
