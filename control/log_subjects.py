"""The fields `namespace`, `run`, `workflow` and `attempt` of log lines that concern a run, and the
level of the log.

Whoever begins to work on a run calls `log_about`: all lines of that task, those of libraries
included, then have the fields.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from inferrun.kube.objects import Object, status_of
from inferrun.names import run_workflow_id
from inferrun.run_ref import RunRef

Fields = Mapping[str, object]

_NOTHING: Final[Fields] = MappingProxyType({})
_subject: ContextVar[Fields] = ContextVar("subject of log lines", default=_NOTHING)

OWN_PACKAGES: Final = ("activities", "control", "inferrun", "operator_shim", "worker", "workflows")
"""The level applies to these. Of libraries, nothing below `info` is logged: Temporal's SDK would
log payloads."""


def log_about(subject: Fields = _NOTHING) -> None:
    """Give all further log lines of this task these fields, instead of those that it gave them
    before."""
    _subject.set(subject)


def fields_of_run(run: RunRef, *, attempt: int | None = None) -> dict[str, object]:
    """The fields of a run; without `attempt` where it is not known."""
    known = {} if attempt is None else {"attempt": attempt}
    return {"namespace": run.namespace, "run": run.name, "workflow": run_workflow_id(run), **known}


def fields_of_object(run: Object) -> dict[str, object]:
    """The fields of an InferenceRun as the API server returns it."""
    return fields_of_run(RunRef.of(run), attempt=status_of(run).get("attempt"))


def add_subject(record: logging.LogRecord) -> bool:
    """A filter that adds the fields to a record. A line of Temporal's SDK about a workflow task has
    the workflow's id alone."""
    task: Mapping[str, Any] | None = getattr(record, "temporal_workflow", None)  # Any: JSON
    subject = _subject.get() if task is None else _of_workflow(str(task.get("workflow_id")))
    for name, value in subject.items():
        vars(record).setdefault(name, value)
    return True


def _of_workflow(identity: str) -> Fields:
    kind, *names = identity.split("/")
    is_of_run = kind == "inferencerun" and len(names) >= 3
    return {
        "workflow": identity,
        **(dict(zip(("namespace", "run"), names, strict=False)) if is_of_run else {}),
    }


def set_level(level: str) -> None:
    """Log what is at least as severe as `level`: debug, info, warning or error."""
    for name in OWN_PACKAGES:
        logging.getLogger(name).setLevel(level.upper())
    logging.getLogger().setLevel("INFO" if level == "debug" else level.upper())
