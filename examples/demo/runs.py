"""The runs as the demo reads them: the resources, by kubectl."""

from __future__ import annotations

import json
from typing import Any

from examples.demo.stage import BrokenPromise, Stage

NAMESPACE = "kserve-test"

Object = dict[str, Any]  # Any: a resource as kubectl prints it


def get(stage: Stage, kind: str, name: str, *, namespace: str = NAMESPACE) -> Object | None:
    """A resource, or None where there is none of that name."""
    text = stage.read(f"kubectl get {kind} {name} -n {namespace} --ignore-not-found -o json")
    found: Object = json.loads(text) if text.strip() else {}
    return found or None


def status(stage: Stage, run: str) -> Object:
    found = get(stage, "inferencerun", run) or {}
    answer: Object = found.get("status") or {}
    return answer


def line(stage: Stage, run: str) -> str:
    """Where a run stands, in one line."""
    seen = status(stage, run)
    records = seen.get("records") or {}
    counted = f", {records.get('completed', 0)} of {records['total']} records" if records.get("total") else ""
    phase, reason = seen.get("phase", "no status"), seen.get("reason", "")
    return (phase if reason in (phase, "") else f"{phase}, {reason}") + counted


def wait_for_reason(stage: Stage, run: str, reason: str, *, within: float) -> Object:
    """The status once it shows `reason`; a run that ends before is a broken promise."""

    def look() -> Object | None:
        seen = status(stage, run)
        if seen.get("reason") == reason:
            return seen
        _refuse_end(run, seen)
        return None

    return stage.wait(f"{run} says {reason}", look, within=within, now=lambda: line(stage, run))


def wait_for_success(stage: Stage, run: str, *, within: float) -> Object:
    def look() -> Object | None:
        seen = status(stage, run)
        if seen.get("phase") == "Succeeded":
            return seen
        _refuse_end(run, seen)
        return None

    return stage.wait(f"{run} succeeds", look, within=within, now=lambda: line(stage, run))


def _refuse_end(run: str, seen: Object) -> None:
    if seen.get("phase") in ("Succeeded", "Failed"):
        raise BrokenPromise(f"{run} ended: {seen.get('phase')} {seen.get('reason')}: {seen.get('message')}")
