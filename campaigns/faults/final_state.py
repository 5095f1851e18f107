"""The state in which a case ends, in a form that can be compared: the one function that decides
about every fault.

Names, UIDs and times are left out; everything that a user could see or be charged for is in:
resources that are left, Jobs and containers per launch, statuses, outputs, and the outcomes of
workflows and schedules. Whether a run's output had to be verified depends on what a crashed worker
had seen; such Jobs only have to end. Whether a run of a schedule is pruned at once or by a clean-up
depends on how long a fault took.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import Any

from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from campaigns.faults.node import PlayedNode, verifies
from campaigns.faults.recorder import Recorder
from control.launches import job_state
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.names import cleanup_workflow_id, recover_workflow_id, run_workflow_id, schedule_id
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.temporal.executions import describe

State = dict[str, Any]  # Any: JSON

STATUS_FIELDS = (
    "phase",
    "reason",
    "attempt",
    "exitCode",
    "records",
    "delivery",
    "output",
    "observedGeneration",
    "backfill",
)
OF_SCHEDULE = re.compile(r"-\d{14}$")
"""In the name of a run: its nominal time."""

ENDS_AFTER_DELETION = ("COMPLETED", f"FAILED {Reason.RUN_DELETED}")
"""How the workflow of a deleted run closes if it finds out before it is cancelled."""

ATTEMPT_FIELDS = ("launch", "attempt", "exitCode", "reason")


async def final_state(
    token: str,
    *,
    submissions: tuple[str, ...],
    deletes: bool,
    recorder: Recorder,
    node: PlayedNode,
    temporal: Client,
) -> State:
    """The state of everything that belongs to the case with this token."""
    return {
        **cluster_state(token, deletes=deletes, recorder=recorder, node=node),
        **await temporal_state(
            token, submissions=submissions, deletes=deletes, recorder=recorder, temporal=temporal
        ),
    }


def cluster_state(token: str, *, deletes: bool, recorder: Recorder, node: PlayedNode) -> State:
    """What the API server has and had of the case, which is known without a request.

    Of a run that its user `deletes` counts that it is gone, not what its last status happened to
    say.
    """
    traces = recorder.traces(token)
    jobs = recorder.present(recorder.jobs, token)
    pods = recorder.present(recorder.pods, token)
    return {
        "runs that exist": sorted(
            _run_state(item) for item in recorder.present(recorder.runs, token)
        ),
        "last status of each run": sorted(_status_text(traces.last[uid]) for uid in traces.runs)
        if not deletes
        else [],
        "most terminal statuses of a run": max(
            (len(one) for one in traces.terminal.values()), default=0
        )
        if not deletes
        else 0,
        "configs": sorted(
            _config_state(item) for item in recorder.present(recorder.configs, token)
        ),
        "Jobs that exist": sorted(_job_state(item) for item in jobs if not verifies(item)),
        "Jobs without their run": _orphans(
            jobs, {str(item["metadata"]["uid"]) for item in recorder.present(recorder.runs, token)}
        ),
        "ConfigMaps that exist": len(recorder.present(recorder.config_maps, token)),
        "Pods that exist": sorted(_pod_state(item) for item in pods if not verifies(item)),
        # the next try of a launch replaces one that was not
        "Jobs ever started per launch": sorted(
            (launch, sum(traces.seen_jobs[uid].is_started for uid in uids))
            for (_, launch), uids in traces.jobs.items()
            if "verified" not in launch
        ),
        "verifications under way": sum(
            verifies(item) and not job_state.is_finished(item) for item in jobs
        ),
        "containers started per launch": sorted(_starts(node, token).items()),
    }


async def temporal_state(
    token: str, *, submissions: tuple[str, ...], deletes: bool, recorder: Recorder, temporal: Client
) -> State:
    runs = list(recorder.traces(token).runs.values())
    workflows = [await _workflows_of(temporal, ref) for ref in runs]
    return {
        "workflows": sorted(
            "CANCELED" if deletes and one in ENDS_AFTER_DELETION else one for one in workflows
        ),
        "clean-ups": sorted([await _clean_up_of(temporal, ref) for ref in runs]),
        "schedules": sorted([await _schedule(temporal, schedule_id(ref)) for ref in runs]),
        "submissions": [await _outcome(temporal, identity) for identity in submissions],
    }


def _run_state(run: Object) -> str:
    kind = "schedule" if run["spec"].get("schedule") else "run"
    is_being_deleted = " being deleted" if run["metadata"].get("deletionTimestamp") else ""
    return f"{kind}{is_being_deleted}: {_status_text(run.get('status') or {})}"


def _status_text(status: Object) -> str:
    parts = {name: status[name] for name in STATUS_FIELDS if name in status}
    attempts = [
        {name: one[name] for name in ATTEMPT_FIELDS if name in one}
        for one in status.get("attempts") or []
    ]
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or []}
    has = [
        name
        for name in ("startTime", "completionTime", "contract", "lastSuccessfulTime")
        if status.get(name)
    ]
    return f"{parts} attempts={attempts} conditions={conditions} has={has} active={len(status.get('active') or [])}"


def _config_state(config: Object) -> str:
    conditions = (config.get("status") or {}).get("conditions") or []
    return str({one["type"]: (one["status"], one["reason"]) for one in conditions})


def _job_state(job: Object) -> str:
    labels = job["metadata"].get("labels") or {}
    ended = sorted(
        one["type"]
        for one in (job.get("status") or {}).get("conditions") or []
        if one["type"] in ("Complete", "Failed")
    )
    has_ttl = "ttlSecondsAfterFinished" in job["spec"]
    is_marked = labels.get(wellknown.LABEL_ENDED) == "true"
    return f"launch {labels.get(wellknown.LABEL_LAUNCH)}: {ended} marked={is_marked} ttl={has_ttl}"


def _orphans(jobs: Iterable[Object], runs: Container[str]) -> int:
    """Jobs that the garbage collector has yet to delete."""
    owners = [one for job in jobs for one in job["metadata"].get("ownerReferences") or []]
    return sum(one["kind"] == wellknown.RUN_KIND and one["uid"] not in runs for one in owners)


def _pod_state(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase"))


def _starts(node: PlayedNode, token: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for (run, launch), count in node.starts.items():
        if token in run and "verified" not in launch:
            found[launch] = max(found[launch], count)
    return found


async def _workflows_of(temporal: Client, run: RunRef) -> str:
    """The outcomes of the workflows that executed the run. A recovery that found the run ended has
    the same one."""
    own = run_workflow_id(run)
    outcomes = {await _outcome(temporal, identity) for identity in (own, recover_workflow_id(own))}
    return ", ".join(sorted(outcomes - {""}))


async def _clean_up_of(temporal: Client, run: RunRef) -> str:
    outcome = await _outcome(temporal, cleanup_workflow_id(run_workflow_id(run)))
    return "" if OF_SCHEDULE.search(run.name) and outcome == "COMPLETED" else outcome


async def _outcome(temporal: Client, identity: str) -> str:
    """How a workflow closed, with the type of its failure; empty if it does not exist."""
    try:
        found = await describe(temporal, identity)
        if found.is_open:
            return "open"
        if found.closed_as != "Failed":
            return found.closed_as.upper()
        await temporal.get_workflow_handle(identity).result()
    except WorkflowFailureError as failure:
        return (
            f"FAILED {failure.cause.type}"
            if isinstance(failure.cause, ApplicationError)
            else "FAILED"
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return ""
        raise
    return "COMPLETED"


async def _schedule(temporal: Client, identity: str) -> str:
    """Whether there is a schedule and whether it is paused; empty without."""
    try:
        found = await temporal.get_schedule_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return ""
        raise
    return "paused" if found.schedule.state.paused else "active"
