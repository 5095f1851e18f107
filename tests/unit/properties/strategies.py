"""What can happen to a run: edits, ends of launches, lost Pods, and what the cluster may have of a
launch."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from inferrun.launches.manifests import WARM_UP_CONTAINER
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.timestamps import rfc3339
from tests.unit.launches import DISRUPTED, UNSCHEDULED, live_job, live_pod
from tests.unit.objects import NOW, Json, at

PROPERTY = settings(max_examples=150)
"""Reproducible: the examples depend on the test alone."""

SILENT = [
    {"type": "Ready", "status": "False", "lastTransitionTime": at(200)},
    {"type": "ContainersReady", "status": "True", "lastTransitionTime": at(200)},
]
"""The conditions of a Pod whose node does not respond."""

WARM_UPS = st.sampled_from(
    [None, {"running": {"startedAt": at(90)}}, {"terminated": {"exitCode": 7, "message": "503"}}]
)

OTHERS = st.sampled_from(
    [
        None,
        None,
        {"running": {"startedAt": at(90)}},
        {"waiting": {"reason": "ImagePullBackOff"}},
        {"terminated": {"exitCode": 0}},
        {"terminated": {"exitCode": 143}},
    ]
)
"""The state of another container of a Pod."""

BEGIN = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    """How a launch may have ended."""
    kind = draw(st.sampled_from(list(VerdictKind)))
    reasons = {VerdictKind.SUCCEEDED: Reason.SUCCEEDED, VerdictKind.SUSPENDED: Reason.SUSPENDED}
    times: dict[str, str] = {}
    if kind is not VerdictKind.NEVER_RAN and draw(st.booleans()):
        started = BEGIN + timedelta(seconds=draw(st.integers(0, 5000)))
        times = {
            "started_at": rfc3339(started),
            "finished_at": rfc3339(started + timedelta(seconds=draw(st.integers(-5, 500)))),
        }
    return Verdict(
        kind=kind,
        reason=reasons.get(kind, Reason.INFERENCE_FAILED),
        message=draw(st.text(max_size=300)),
        may_retry=draw(st.booleans()),
        exit_code=draw(st.none() | st.integers(0, 255)),
        is_unclear=draw(st.booleans()),
        **times,
    )


def jobs() -> st.SearchStrategy[Json]:
    """A Job of one or several shards that is under way, suspended or finished."""
    specs: list[dict[str, Any]] = [
        {},
        {"suspend": True},
        {"completions": 3},
        {"completions": 3, "suspend": True},
    ]  # Any: JSON
    return st.builds(
        lambda condition, spec: live_job(
            condition=condition, age=400, **({"spec": spec} if spec else {})
        ),
        st.sampled_from([None, None, None, "Complete", "Failed"]),
        st.sampled_from(specs),
    )


def states() -> st.SearchStrategy[Json | None]:
    """The state of a container, with times of a node whose clock may be wrong."""
    times = st.integers(-300, 900).map(at)
    running = times.map(lambda time: {"running": {"startedAt": time}})
    waits = st.sampled_from(
        ["ContainerCreating", "ErrImagePull", "InvalidImageName", "CreateContainerError"]
    )
    ended = st.builds(
        lambda code, start, finish: {
            "terminated": {"exitCode": code, "startedAt": start, "finishedAt": finish}
        },
        st.sampled_from([0, 1, 2, 3, 6, 137, 143]),
        times,
        times,
    )
    return st.none() | running | waits.map(lambda reason: {"waiting": {"reason": reason}}) | ended


@st.composite
def pods(draw: st.DrawFn) -> list[Json]:
    """Up to four Pods of one Job, in any state, oldest first. Some wait for their model, the nodes
    of some are silent, and some have another container, which may run on or may have failed.
    """
    found = []
    for number in range(draw(st.integers(0, 4))):
        state = draw(states())
        code = (state or {}).get("terminated", {}).get("exitCode")
        phase = {
            None: "Running" if state and "running" in state else "Pending",
            0: "Succeeded",
        }.get(code, "Failed")
        other = draw(OTHERS) if state is not None else None
        if code is not None and other is not None:
            phase = (
                "Running"
                if "terminated" not in other
                else "Failed"
                if other["terminated"]["exitCode"]
                else phase
            )
        deleted: Json = {"deletionTimestamp": at(1)} if draw(st.booleans()) else {}
        conditions = draw(st.sampled_from([[], [DISRUPTED], [UNSCHEDULED], SILENT]))
        node = draw(st.sampled_from(["node-1", None])) if state is None else "node-1"
        age = 300 - 60 * number
        pod = live_pod(
            state,
            uid=f"pod-{number}",
            phase=phase,
            age=age,
            node=node,
            conditions=conditions,
            **deleted,
        )
        if state is None and (warm_up := draw(WARM_UPS)) is not None:
            pod["status"]["initContainerStatuses"] = [{"name": WARM_UP_CONTAINER, "state": warm_up}]
        if other is not None:
            pod["status"]["containerStatuses"].append({"name": "proxy", "state": other})
        found.append(pod)
    return found


__all__ = ["BEGIN", "NOW", "PROPERTY", "jobs", "pods", "verdicts"]
