"""Reads InferenceRuns and other resources with kubectl."""

from __future__ import annotations

import json
from typing import Any

from examples.demo.terminal import DemoFailed, Terminal

NAMESPACE = "kserve-test"

Object = dict[str, Any]  # Any: a resource as kubectl prints it


def get(terminal: Terminal, kind: str, name: str, *, namespace: str = NAMESPACE) -> Object | None:
    """A resource, or None if it does not exist."""
    text = terminal.read(f"kubectl get {kind} {name} -n {namespace} --ignore-not-found -o json")
    found: Object = json.loads(text) if text.strip() else {}
    return found or None


def uid(terminal: Terminal, run: str) -> str:
    found = get(terminal, "inferencerun", run)
    if found is None:
        raise DemoFailed(f"the InferenceRun {run} does not exist")
    return str(found["metadata"]["uid"])


def status(terminal: Terminal, run: str) -> Object:
    found = get(terminal, "inferencerun", run) or {}
    current: Object = found.get("status") or {}
    return current


def summary(terminal: Terminal, run: str) -> str:
    """The state of a run on one line."""
    current = status(terminal, run)
    records = current.get("records") or {}
    counts = (
        f", {records.get('completed', 0)} of {records['total']} records"
        if records.get("total")
        else ""
    )
    phase, reason = current.get("phase", "no status"), current.get("reason", "")
    return (phase if reason in (phase, "") else f"{phase}, {reason}") + counts


def wait_for_reason(terminal: Terminal, run: str, reason: str, *, timeout: float) -> Object:
    """The status once it has this reason. Raises DemoFailed if the run ends before that."""

    def probe() -> Object | None:
        current = status(terminal, run)
        if current.get("reason") == reason:
            return current
        _fail_if_ended(run, current)
        return None

    return terminal.wait(
        f"{run} has reason {reason}", probe, timeout=timeout, state=lambda: summary(terminal, run)
    )


def wait_for_success(terminal: Terminal, run: str, *, timeout: float) -> Object:
    """The status once the run has succeeded. Raises DemoFailed if it fails."""

    def probe() -> Object | None:
        current = status(terminal, run)
        if current.get("phase") == "Succeeded":
            return current
        _fail_if_ended(run, current)
        return None

    return terminal.wait(
        f"{run} has succeeded", probe, timeout=timeout, state=lambda: summary(terminal, run)
    )


def _fail_if_ended(run: str, current: Object) -> None:
    if current.get("phase") in ("Succeeded", "Failed"):
        raise DemoFailed(
            f"{run} ended: {current.get('phase')} {current.get('reason')}: {current.get('message')}"
        )
