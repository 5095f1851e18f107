"""Callers of activities: what a workflow may ask of them, by the id and the type with which it was
started. Pure.

The Temporal namespace is an entry point for other programs. Whoever may start workflows there can
start ours with any argument, and workflows of their own that call our activities; they choose a
workflow's id and type.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from inferrun.names import (
    LABEL_PATTERN,
    cleanup_workflow_id,
    is_subdomain,
    recover_workflow_id,
    run_workflow_id,
)
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from workflows import activity_options, messages
from workflows.messages import (
    DeleteRunInput,
    DeleteScheduleInput,
    EditInput,
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
        activity_options.BACKFILL,
    )
)
"""The activities that only the workflow of the run in their argument may call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A workflow that calls an activity."""

    workflow_type: str
    workflow_id: str


def refusal_of(
    argument: object, *, activity_type: str, caller: Caller, served: Collection[str] | None
) -> str:
    """Why a workflow may not call the activity with this argument; empty if it may. `served` are
    the Kubernetes namespaces that submissions may reach, None for all.
    """
    named = named_in(argument)
    if isinstance(named, RunRef) and not _can_exist(named):
        return "the argument names a run that cannot exist"
    if isinstance(argument, OriginInput):
        is_ours = caller.workflow_type in (messages.RUN_WORKFLOW, WORKFLOW_TYPE)
        return "" if is_ours else "only workflows of this installation may do that"
    edited = (
        argument.run
        if isinstance(argument, EditInput) and caller.workflow_type == messages.RUN_WORKFLOW
        else None
    )
    if activity_type in _OF_RUNS or edited is not None:
        return refusal_of_run(named, caller) or (
            _refusal_of_namespace(edited.namespace, served=served) if edited else ""
        )
    if isinstance(argument, DeleteRunInput):
        wanted = cleanup_workflow_id(run_workflow_id(argument.run))
        is_own = (caller.workflow_type, caller.workflow_id) == (messages.CLEANUP_WORKFLOW, wanted)
        return "" if is_own else f"only workflow {wanted!r} may delete run {argument.run}"
    if caller.workflow_type != WORKFLOW_TYPE:
        return f"only workflows of type {WORKFLOW_TYPE} may do that"
    return _refusal_of_submission(argument, caller, served=served)


def _refusal_of_submission(
    argument: object, caller: Caller, *, served: Collection[str] | None
) -> str:
    if isinstance(argument, SubmitInput):
        namespace = argument.submission.namespace
    elif isinstance(argument, RunRequest | EditInput):
        namespace = argument.run.namespace
    elif isinstance(argument, DeleteScheduleInput):
        namespace = argument.parent.namespace
    else:
        return "the argument names no namespace"
    if isinstance(argument, SubmitInput) and argument.workflow_id != caller.workflow_id:
        return f"the submission is that of workflow {argument.workflow_id!r}"
    return _refusal_of_namespace(namespace, served=served)


def _refusal_of_namespace(namespace: str, *, served: Collection[str] | None) -> str:
    if served is not None and namespace not in served:
        allowed = ", ".join(sorted(served)) or "none"
        return f"namespace: {namespace!r} is not served by this installation; allowed: {allowed}"
    return ""


def named_in(argument: object) -> object:
    """The run or the schedule that the argument of an activity names, if any; not checked."""
    return getattr(argument, "run", None) or getattr(argument, "parent", None)


def refusal_of_run(named: object, caller: Caller) -> str:
    """Why a workflow may not act on the run or read it: only the run's own workflow may."""
    own = run_workflow_id(named) if isinstance(named, RunRef) and _can_exist(named) else ""
    is_own = caller.workflow_type == messages.RUN_WORKFLOW and caller.workflow_id in (
        own,
        recover_workflow_id(own),
    )
    text = (
        f"only the workflow of run {named}, {own!r}, may act on it"
        if own
        else "the argument names no run"
    )
    return "" if own and is_own else text


def _can_exist(run: RunRef) -> bool:
    """With names that no object can have, a run would have a second workflow."""
    is_namespace = re.fullmatch(LABEL_PATTERN, run.namespace) is not None
    is_uid = re.fullmatch("[-A-Za-z0-9]{1,128}", run.uid) is not None
    return is_namespace and is_uid and is_subdomain(run.name)
