"""Which workflow may call which activity, and about what. Pure.

Whoever may start workflows in the Temporal namespace can start ours with any argument, and workflows of their own that
call our activities. The server tells an activity the id and the type of the workflow that called it.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from inferrun.names import LABEL_PATTERN, cleanup_workflow_id, is_subdomain, recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from workflows import activity_options, messages
from workflows.messages import (
    DeleteRunInput,
    DeleteScheduleInput,
    OriginInput,
    RunRequest,
    SubmitInput,
)

_OF_RUNS: Final = frozenset(
    options.name
    for options in (
        activity_options.LAUNCH,
        activity_options.INSPECT,
        activity_options.STOP_LAUNCH,
        activity_options.READ_SPEC,
        activity_options.VERIFY,
        activity_options.PUBLISH,
        activity_options.RECORD,
    )
)
"""The activities that only the workflow of the run in their argument may call."""


_OF_BOTH: Final = (messages.RUN_WORKFLOW, WORKFLOW_TYPE)


@dataclass(frozen=True)
class Caller:
    """The workflow that called an activity, as the server knows it."""

    workflow_type: str
    workflow_id: str
    run_id: str


def refusal(activity: str, argument: object, caller: Caller, *, served: Collection[str] | None) -> str:
    """Why the workflow must not call the activity with this argument, empty if it may.

    `served` are the Kubernetes namespaces that submissions may reach, None for all.
    """
    named = getattr(argument, "run", None) or getattr(argument, "parent", None)
    if isinstance(named, RunRef) and not _is_possible(named):
        return "the argument names a run that cannot exist"
    if isinstance(argument, OriginInput):
        return "" if caller.workflow_type in _OF_BOTH else "only workflows of this installation may do that"
    if activity in _OF_RUNS:
        run = getattr(argument, "run", None)
        return _refusal_of_run(run, caller) if isinstance(run, RunRef) else "the argument names no run"
    if isinstance(argument, DeleteRunInput):
        wanted = cleanup_workflow_id(run_workflow_id(argument.run))
        is_own = (caller.workflow_type, caller.workflow_id) == (messages.CLEANUP_WORKFLOW, wanted)
        return "" if is_own else f"only workflow {wanted!r} may delete run {argument.run}"
    return _refusal_of_submission(argument, caller, served=served)


def _is_possible(run: RunRef) -> bool:
    """Whether an object can have these names. Otherwise a run would have a second one, and a second workflow."""
    is_namespace = re.fullmatch(LABEL_PATTERN, run.namespace) is not None
    return is_namespace and is_subdomain(run.name) and re.fullmatch("[-A-Za-z0-9]{1,128}", run.uid) is not None


def _refusal_of_run(run: RunRef, caller: Caller) -> str:
    own = run_workflow_id(run)
    is_own = caller.workflow_type == messages.RUN_WORKFLOW and caller.workflow_id in (own, recover_workflow_id(own))
    return "" if is_own else f"only the workflow of run {run}, {own!r}, may act on it"


def _refusal_of_submission(argument: object, caller: Caller, *, served: Collection[str] | None) -> str:
    if caller.workflow_type != WORKFLOW_TYPE:
        return f"only workflows of type {WORKFLOW_TYPE} may do that"
    namespace = _namespace_of(argument)
    if namespace is None:
        return "the argument names no namespace"
    if isinstance(argument, SubmitInput) and argument.workflow_id != caller.workflow_id:
        return f"the submission is that of workflow {argument.workflow_id!r}"
    if served is not None and namespace not in served:
        allowed = ", ".join(sorted(served)) or "none"
        return f"namespace: {namespace!r} is not served by this installation; allowed: {allowed}"
    return ""


def _namespace_of(argument: object) -> str | None:
    if isinstance(argument, SubmitInput):
        return argument.submission.namespace
    if isinstance(argument, RunRequest):
        return argument.run.namespace
    return argument.parent.namespace if isinstance(argument, DeleteScheduleInput) else None
