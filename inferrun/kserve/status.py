"""Reads what is common to the statuses of KServe's objects. Pure; malformed fields raise
nothing."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from inferrun.kserve.answer import NotYet, Stored, Unreadable
from inferrun.text import one_line
from inferrun.timestamps import parse_foreign

STOP_ANNOTATION: Final = "serving.kserve.io/stop"

SETTLED_AFTER: Final = timedelta(seconds=60)
"""After an edit of the spec; KServe's controllers take seconds to write that the object is no
longer ready."""

_TEXT_LIMIT: Final = 512


def member(value: object, *keys: str) -> Any:  # Any: JSON
    """The member at a path of keys; None if something on the way is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text(value: object, *keys: str) -> str:
    """The string at a path of keys; empty if it is missing."""
    found = member(value, *keys)
    return found if isinstance(found, str) else ""


def number(value: object, *keys: str) -> int | None:
    """The integer at a path of keys."""
    found = member(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def items(value: object, *keys: str) -> list[Any]:  # Any: JSON
    """The list at a path of keys; empty if it is missing."""
    found = member(value, *keys)
    return found if isinstance(found, list) else []


def condition(item: Stored, kind: str) -> Stored:
    """The condition of that type; empty if it is missing."""
    found = (
        one
        for one in items(item, "status", "conditions")
        if isinstance(one, dict) and one.get("type") == kind
    )
    return next(found, {})


def is_true(item: Stored, kind: str) -> bool:
    """Whether the condition of that type is True."""
    return text(condition(item, kind), "status") == "True"


def shown(item: Stored, kind: str) -> str:
    """A condition for people: `Ready is False (Reason: message)`."""
    found = condition(item, kind)
    if not found:
        return "KServe has not reported on it yet (if this lasts, check that its controller is running)"
    why = ": ".join(part for part in (text(found, "reason"), text(found, "message")) if part)
    return one_line(
        f"{kind} is {text(found, 'status')}{f' ({why})' if why else ''}", limit=_TEXT_LIMIT
    )


def not_ready(item: Stored, parts: tuple[str, ...], *, pods: str) -> NotYet | None:
    """The answer for an object that is not ready. The first of the conditions `parts` that is not
    True is the cause, because `Ready` may name what waits for it. `pods` is the label of its Pods,
    whose logs say more than its status.
    """
    if is_true(item, "Ready"):
        return None
    why = shown(
        item,
        next(
            (kind for kind in parts if condition(item, kind) and not is_true(item, kind)), "Ready"
        ),
    )
    namespace, name = namespace_of(item), text(item, "metadata", "name")
    command = f"kubectl -n {namespace} get pods -l {pods}={name}"
    return NotYet(
        f"{name_of(item)} is not ready: {why}; the run starts when it is; to see its Pods: {command}"
    )


def namespace_of(item: Stored) -> str:
    return text(item, "metadata", "namespace")


def name_of(item: Stored) -> str:
    """`Kind namespace/name`, for messages."""
    return f"{text(item, 'kind')} {namespace_of(item)}/{text(item, 'metadata', 'name')}"


def stopped(item: Stored) -> NotYet | None:
    """The answer for an object that is being deleted or was stopped with KServe's annotation."""
    if member(item, "metadata", "deletionTimestamp"):
        return NotYet(
            f"{name_of(item)} is being deleted; create it again and the run starts automatically"
        )
    is_annotated = text(item, "metadata", "annotations", STOP_ANNOTATION).lower() == "true"
    if (
        is_annotated
        or is_true(item, "Stopped")
        or text(condition(item, "Ready"), "reason") == "Stopped"
    ):
        return NotYet(
            f"{name_of(item)} is stopped; remove its annotation {STOP_ANNOTATION} and the run starts automatically"
        )
    return None


def outdated(item: Stored, *, now: datetime) -> NotYet | None:
    """The answer for an object whose controller has not dealt with the latest edit of its spec.

    KServe copies the `observedGeneration` of an InferenceService from its Deployment or Knative
    Service, whose generation does not change with every edit of the InferenceService. It is
    therefore believed only for a while after an edit.
    """
    generation = number(item, "metadata", "generation")
    observed = number(item, "status", "observedGeneration")
    if generation is None or (observed is not None and observed >= generation):
        return None
    until = edited_until(item, SETTLED_AFTER) if observed is not None else None
    if until is not None and now >= until:
        return None
    status = f"its status is still of generation {observed or 'none'} instead of {generation}"
    message = f"{name_of(item)} was edited, and {status}; the run starts when KServe has dealt with the edit"
    return NotYet(message, until=until)


def edited_until(item: Stored, span: timedelta) -> datetime | None:
    """The end of a span that began when the spec was edited last, by the API server's clock. None
    if that is not known, or if the calendar ends before: users can set the time of an edit.
    """
    times = (
        parse_foreign(entry.get("time"))
        for entry in items(item, "metadata", "managedFields")
        if isinstance(entry, dict) and member(entry, "fieldsV1", "f:spec") is not None
    )
    edited = max(filter(None, times), default=None)
    try:
        return edited + span if edited is not None else None
    except OverflowError:
        return None


def rolling_out(item: Stored, deployment: Stored | Unreadable | None) -> NotYet | None:
    """The answer while Pods of an earlier template of the Deployment are left; None if all Pods are
    new, or if that is unknown."""
    if not isinstance(deployment, Mapping):
        return None
    status = member(deployment, "status")
    left = (number(status, "replicas") or 0) - (number(status, "updatedReplicas") or 0)
    if left <= 0 and _is_observed(deployment):
        return None
    name = text(deployment, "metadata", "name")
    found = f"{left} of its Pods" if left > 0 else "its Pods"
    return NotYet(
        f"{name_of(item)} is being updated: {found} may be of the previous version ({shown(deployment, 'Progressing')}); the run "
        f"starts when all are new; to see the update: kubectl -n {text(deployment, 'metadata', 'namespace')} rollout status "
        f"deployment {name}",
        is_other=True,
    )


def rollout_failed(deployment: Stored) -> bool:
    """Whether the Deployment's current template had the time that its controller allows, and did
    not become available."""
    reason = text(condition(deployment, "Progressing"), "reason")
    return _is_observed(deployment) and reason == "ProgressDeadlineExceeded"


def _is_observed(deployment: Stored) -> bool:
    """Whether the Deployment's status is about its latest template."""
    observed = number(deployment, "status", "observedGeneration") or 0
    return observed >= (number(deployment, "metadata", "generation") or 0)
