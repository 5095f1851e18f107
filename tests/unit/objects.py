"""Kubernetes objects and our own values as these tests need them: whole enough, with what a test
changes given."""

from datetime import UTC, datetime, timedelta
from typing import Any

from inferrun.launches.snapshot import Snapshot
from inferrun.resources import InferenceConfig, InferenceRun, parse_config, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef

Json = dict[str, Any]  # Any: Kubernetes objects are open JSON

UID = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"
RUN = RunRef(namespace="models", name="iris", uid=UID)
NOW = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)
STARTED = "2026-11-21T07:00:00Z"
FINISHED = "2026-11-21T07:01:00Z"


def at(seconds: float) -> str:
    """An instant so many seconds before NOW."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(
    *,
    condition: str | None = None,
    reason: str = "",
    message: str = "",
    age: float = 0,
    **changes: Any,
) -> Json:
    """A Job, terminal by a condition or under way."""
    conditions = (
        [{"type": condition, "status": "True", "reason": reason, "message": message}]
        if condition
        else []
    )
    return {
        "metadata": {
            "name": "inf-iris",
            "namespace": "models",
            "uid": "job-uid",
            "creationTimestamp": at(age),
            "annotations": {},
        },
        "spec": {},
        "status": {"conditions": conditions},
        **changes,
    }


def pod(
    state: Json | None = None,
    *,
    phase: str = "Pending",
    age: float | None = None,
    name: str = "inf-iris-abc",
    conditions: list[Json] | None = None,
    **status: Any,
) -> Json:
    """A Pod whose container `inference` is in that state; without an age, it is new, or as old as a
    container that has ended."""
    ended = (state or {}).get("terminated") or {}
    created = at(age) if age is not None else min(at(0), ended.get("startedAt") or at(0))
    container = [{"name": "inference", "state": state}] if state is not None else []
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"containers": [{"name": "inference", "image": "registry/own:1"}]},
        "status": {
            "phase": phase,
            "containerStatuses": container,
            "conditions": conditions or [],
            **status,
        },
    }


def terminated(
    code: int, *, message: str = "", reason: str = "Error", started: str = STARTED
) -> Json:
    """The state of a container that has ended."""
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": started,
            "finishedAt": FINISHED,
        }
    }


def waiting(reason: str, message: str = "") -> Json:
    """The state of a container that has not started."""
    return {"waiting": {"reason": reason, "message": message}}


def event(reason: str, message: str, *, age: float = 0) -> Json:
    """An Event."""
    return {
        "reason": reason,
        "message": message,
        "lastTimestamp": at(age),
        "metadata": {"name": "event"},
    }


def snapshot(**changes: Any) -> Snapshot:
    """The snapshot of a run with the built-in runner and the default limits."""
    limits = Defaults().model_dump()
    given = {
        "image": "runner:1",
        "is_our_runner": True,
        "ttl_seconds_after_finished": limits["job_ttl_seconds"],
    }
    return Snapshot.model_validate({**limits, **given, **changes})


def run(*, status: Json | None = None, metadata: Json | None = None, **spec: Any) -> InferenceRun:
    """A stored run."""
    return parse_run(
        {
            "metadata": {
                "name": "iris",
                "namespace": "models",
                "uid": UID,
                "generation": 3,
                "resourceVersion": "7",
                "creationTimestamp": STARTED,
                **(metadata or {}),
            },
            "spec": {"configRef": {"name": "iris"}, **spec},
            "status": status or {},
        }
    )


def config(**spec: Any) -> InferenceConfig:
    """A stored config."""
    return parse_config(
        {"metadata": {"name": "iris", "namespace": "models"}, "spec": {"storage": {}, **spec}}
    )
