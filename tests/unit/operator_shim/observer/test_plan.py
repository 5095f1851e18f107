"""What is planned for a launch, from what is seen of it and what was done before."""

from dataclasses import replace
from typing import Any

import pytest

from control.launches.observation import Doing, Launch
from control.launches.trimming import trim_job, trim_pod
from inferrun.kube.objects import Object
from inferrun.launches.manifests import NOT_STARTED
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import Pace, ProgressLine, RecordCounts, TokenUsage
from operator_shim.observer.plan import (
    EVENTS,
    Command,
    Memory,
    Plan,
    View,
    plan,
)
from operator_shim.run_watch import trim_run
from tests.unit.launches import UNSCHEDULED, live_job, live_pod, live_run, running
from tests.unit.objects import NOW, Json, at, waiting


def kept(trimmed: Object | None) -> Object:
    assert trimmed is not None
    return trimmed


JOB = kept(trim_job(live_job(clock=60)))
LAUNCH = Launch.of_job(JOB)
STARTED = live_pod(running(at(0)), phase="Running")
CREATING = live_pod(waiting("ContainerCreating"))


def view(*pods: Json, now: float = 0.0, **fields: Any) -> View:  # Any: fields of View
    """The Job, these Pods and a run whose status names the Job."""
    given = {"job": JOB, "run": trim_run(live_run(message=""))} | fields
    trimmed = tuple(kept(trim_pod(pod)) for pod in pods)
    return View(now=now, server_time=NOW, pods=trimmed, ends=(), node_lost_seconds=300, **given)


def memory() -> Memory:
    assert LAUNCH is not None
    return Memory(LAUNCH)


def remembered(planned: Plan) -> Memory:
    assert planned.memory is not None
    return planned.memory


@pytest.mark.parametrize(
    "seen",
    [
        view(STARTED),
        view(CREATING),
        view(live_pod(node=None, conditions=[UNSCHEDULED])),
        view(),
        view(job=kept(trim_job(live_job(condition="Complete")))),
        view(job=None),
        view(run=None),
    ],
    ids=["running", "creating", "unscheduled", "no Pod", "finished", "missing", "left over"],
)
def test_what_was_planned_is_not_planned_again_before_its_time(seen: View) -> None:
    first = remembered(plan(seen, memory()))
    again = plan(replace(seen, now=min(first.due, 0.1) / 2), first)
    assert again.commands == ()
    assert remembered(again).due == first.due


def test_changes_do_not_postpone_a_read_of_events() -> None:
    known = memory()
    for now in (0.0, EVENTS.first - 1, EVENTS.first):
        planned = plan(
            view(live_pod(waiting("ContainerCreating"), version=int(now)), now=now), known
        )
        assert (Command.READ_EVENTS in planned.commands) is (now >= EVENTS.first)
        known = remembered(planned)
    assert planned.subject == "pod-a"


@pytest.mark.parametrize("completed", [2, 3])
def test_the_number_of_records_is_written_unless_the_status_has_it(completed: int) -> None:
    seen = view(STARTED, report=ProgressLine(records=RecordCounts(completed=3, total=9)))
    known = replace(memory(), announced="pod-a")
    wanted = remembered(plan(seen, known)).progress
    assert wanted is not None
    records = {"completed": completed, "total": 9, "failed": 0}
    run = trim_run(
        live_run(phase=wanted.phase, reason=wanted.reason, message=wanted.message, records=records)
    )
    planned = plan(replace(seen, run=run), known)
    assert (Command.WRITE in planned.commands) is (completed != 3)


@pytest.mark.parametrize("failed", [0, 4, 5])
def test_the_number_of_failed_requests_is_written_unless_the_status_has_it(failed: int) -> None:
    counts, usage = RecordCounts(completed=3, total=9), TokenUsage(prompt_tokens=4, total_tokens=4)
    seen = view(
        STARTED,
        report=ProgressLine(records=counts, usage=usage, pace=Pace(requests=7, failed_requests=5)),
    )
    known = replace(memory(), announced="pod-a")
    wanted = remembered(plan(seen, known)).progress
    assert wanted is not None
    assert wanted.report is not None
    assert wanted.report.usage == usage
    records = {"completed": 3, "total": 9, "failed": 0}
    pace = {"requests": 7, "failedRequests": failed}
    stored = live_run(
        phase=wanted.phase, reason=wanted.reason, message=wanted.message, records=records, pace=pace
    )
    run = trim_run(stored)
    assert (Command.WRITE in plan(replace(seen, run=run), known).commands) is (failed != 5)


RUNNING_TEXT = f"attempt 1 is running in Pod {STARTED['metadata']['name']}"
PAUSE = "its workflow is paused in Temporal: nothing follows until it is resumed"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (view(STARTED), RUNNING_TEXT),
        (view(job=kept(trim_job(live_job(condition="Complete")))), "its Pod has completed"),
    ],
    ids=["running", "completed"],
)
def test_what_becomes_of_a_launch_is_said_along_with_the_pause_of_its_workflow(
    seen: View, said: str
) -> None:
    run = trim_run(live_run(phase="Running", reason="Running", message=RUNNING_TEXT))
    known = replace(memory(), announced="pod-a")
    planned = plan(replace(seen, run=run, pause=PAUSE), known)
    progress = remembered(planned).progress
    assert progress is not None
    assert (progress.phase, progress.reason) == ("Running", "WorkflowPaused")
    assert progress.message == f"{said}; {PAUSE}"
    run = trim_run(live_run(phase=progress.phase, reason=progress.reason, message=progress.message))
    assert remembered(plan(replace(seen, run=run, pause=PAUSE), known)).progress is None


def test_a_run_is_shown_as_running_again_once_its_workflow_is_resumed() -> None:
    message = f"{RUNNING_TEXT}; {PAUSE}"
    run = trim_run(live_run(phase="Running", reason="WorkflowPaused", message=message))
    planned = plan(replace(view(STARTED), run=run), memory())
    assert Command.SIGNAL not in planned.commands, "the start is known"
    progress = remembered(planned).progress
    assert progress is not None
    assert (progress.reason, progress.message) == ("Running", RUNNING_TEXT)


def changed(**metadata: Any) -> Json:
    """A running Pod of the Job whose image was changed."""
    other = live_pod(running(at(0)), phase="Running", **metadata)
    other["spec"]["containers"][0]["image"] = "mirror/own:1"
    return other


def test_a_pod_that_executes_something_else_is_reported_at_once() -> None:
    planned = plan(view(changed()), memory())
    progress = remembered(planned).progress
    assert progress is not None
    assert (progress.phase, progress.reason, progress.is_warning) == (
        Phase.PENDING,
        Reason.POD_CHANGED,
        True,
    )
    assert "image 'mirror/own:1' instead of 'registry/own:1'" in progress.message
    assert Command.WRITE in planned.commands


def test_a_running_pod_whose_image_is_changed_is_taken_at_once_and_then_reported() -> None:
    known = replace(memory(), announced="pod-a")
    planned = plan(view(changed()), known)
    signal = remembered(planned).signal
    assert signal is not None
    assert (signal.doing, signal.pod_uid) == (Doing.TAKEN, "pod-a")
    progress = remembered(
        plan(view(changed()), replace(remembered(planned), announced="", signal=None))
    ).progress
    assert progress is not None
    assert progress.reason is Reason.POD_CHANGED


def test_a_pod_that_executes_something_else_does_not_hide_one_that_runs() -> None:
    progress = remembered(
        plan(view(STARTED, changed(uid="pod-b")), replace(memory(), announced="pod-a"))
    ).progress
    assert progress is not None
    assert progress.reason is Reason.RUNNING


def test_nothing_is_said_of_a_job_that_has_not_been_started() -> None:
    """The launcher says what prevents it, and that must last."""
    held = live_job()
    held["spec"]["parallelism"] = NOT_STARTED
    refused = trim_run(
        live_run(reason="PodRejected", message="the start of the Job was not admitted")
    )
    seen = view(job=kept(trim_job(held)), run=refused)
    planned = plan(seen, memory())
    for now in (0.0, 30.0, 300.0):
        planned = plan(replace(seen, now=now), remembered(planned))
        assert Command.WRITE not in planned.commands
