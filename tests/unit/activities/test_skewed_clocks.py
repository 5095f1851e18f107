"""Times in objects are compared with the API server's clock, those of schedules with Temporal's.
The clock of this process, days ahead of both here, decides nothing.
"""

from datetime import timedelta

import pytest

from activities.delete_run import HistoryPruner, RunDeleter
from activities.inspect_launch import LaunchInspector
from activities.launch_reader import LaunchReader
from activities.stop_launch import LaunchStopper
from control.cluster.events import EventRecorder
from inferrun.kube.runs import RunStore
from inferrun.launches.pod_shape import shape_of_pod
from inferrun.reasons import Reason
from inferrun.run_defaults import Defaults
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.activities.one_schedule import OneSchedule, submit
from tests.unit.launches import (
    INSTALLATION,
    JOB_NAME,
    JOB_UID,
    is_of_shim,
    live_job,
    live_pod,
    live_run,
    no_postponement,
    running,
)
from tests.unit.objects import NOW, RUN, at, snapshot
from workflows.messages import (
    DeleteRunInput,
    DeletionResult,
    LaunchReport,
    LaunchStage,
    StopLaunchInput,
    StopLaunchResult,
)

SILENT = [
    {"type": "Ready", "status": "False", "lastTransitionTime": at(0)},
    {"type": "ContainersReady", "status": "True"},
]


def request(**changes: object) -> StopLaunchInput:
    given = {
        "run": RUN,
        "job_name": JOB_NAME,
        "job_uid": JOB_UID,
        "snapshot": snapshot().model_dump_json(),
        "pod_shape": shape_of_pod(live_pod()),
        "pod_uid": "pod-a",
        "grace_seconds": 5,
    }
    return StopLaunchInput.model_validate({**given, **changes})


def reader_of(api: StoredObjects) -> LaunchReader:
    return LaunchReader(api, RunStore(api), is_signer=is_of_shim, defaults=Defaults)


async def stop(api: StoredObjects, *, only_after: float) -> StopLaunchResult:
    stopper = LaunchStopper(api, RunStore(api), reader_of(api))
    return await stopper.stop_launch(request(only_after_seconds=only_after))


@pytest.mark.parametrize(("ran", "left"), [(0, 60), (30, 30), (58, 2)])
async def test_a_stop_at_a_deadline_that_has_not_come_says_how_many_seconds_are_left(
    ran: int, left: int
) -> None:
    api = StoredObjects(
        inferenceruns=live_run(),
        jobs=live_job(),
        pods=live_pod(running(at(ran)), phase="Running", age=ran),
    )
    stopped = await stop(api, only_after=60)
    assert (stopped.is_stopped, stopped.seconds_left) == (False, left)
    assert stopped.report.cluster_time == NOW


async def test_a_stop_at_a_deadline_that_has_come_stops_the_launch() -> None:
    pod = live_pod(running(at(60)), phase="Running", age=60)
    assert (
        await stop(
            StoredObjects(inferenceruns=live_run(), jobs=live_job(), pods=pod), only_after=60
        )
    ).is_stopped


@pytest.mark.parametrize(("node_ahead", "left"), [(-30, 20), (-5, 20), (0, 20), (5, 25), (30, 50)])
async def test_the_clock_of_a_node_brings_no_deadline_forward(node_ahead: int, left: int) -> None:
    """The container has run for 40 s. On a node that is ahead it gets more time, by the
    difference."""
    pod = live_pod(running(at(40 - node_ahead)), phase="Running", age=43)
    pod["status"]["startTime"] = at(42 - node_ahead)
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(42)}
    ]
    stopped = await stop(
        StoredObjects(inferenceruns=live_run(), jobs=live_job(), pods=pod), only_after=60
    )
    assert stopped.seconds_left == pytest.approx(left, abs=2)


@pytest.mark.parametrize(
    ("seconds", "stage"), [(299, LaunchStage.RUNNING), (300, LaunchStage.STUCK)]
)
async def test_a_node_is_lost_by_the_clock_of_the_control_plane_that_marked_its_pods(
    seconds: int, stage: LaunchStage
) -> None:
    pod = live_pod(running(at(60)), phase="Running", age=60, conditions=SILENT)
    api = StoredObjects(inferenceruns=live_run(), jobs=live_job(), pods=pod)
    api.time = NOW + timedelta(seconds=seconds)
    inspector = LaunchInspector(api, RunStore(api), reader_of(api), installation=INSTALLATION)
    report: LaunchReport = await inspector.inspect_launch(request())
    assert (report.stage, report.cluster_time) == (stage, api.time)


@pytest.mark.parametrize("seconds", [-60, 0])
async def test_a_run_is_deleted_when_it_is_due_by_the_clock_that_said_when(seconds: int) -> None:
    due = {"phase": "Succeeded", "reason": "Succeeded", "deleteAfter": at(0)}
    api = StoredObjects(inferenceruns=live_run(**{**due, "job_uid": None}))  # type: ignore[arg-type]
    api.time = NOW + timedelta(seconds=seconds)
    events = EventRecorder(api, reporter="tests")
    deleter = RunDeleter(
        api,
        RunStore(api),
        events=events,
        pruner=HistoryPruner(
            api,
            RunStore(api),
            events=EventRecorder(api, reporter="tests"),
            postpone=no_postponement,
        ),
    )
    if seconds < 0:
        with pytest.raises(Exception, match="is kept until") as refused:
            await deleter.delete_run(DeleteRunInput(run=RUN, because="it ended"))
        assert getattr(refused.value, "next_retry_delay") == timedelta(seconds=60)  # noqa: B009 -- any exception
        return
    result: DeletionResult = await deleter.delete_run(DeleteRunInput(run=RUN, because="it ended"))
    assert result.deleted


@pytest.mark.parametrize(("late", "reason"), [(59, None), (61, Reason.MISSED)])
async def test_a_run_of_a_schedule_is_late_by_the_clock_that_the_schedule_goes_by(
    late: int, reason: Reason | None
) -> None:
    """Temporal is a year ahead of the API server."""
    due = NOW + timedelta(days=365)
    api = OneSchedule(startingDeadlineSeconds=60)
    status = await submit(api, due=due, started=due + timedelta(seconds=late))
    assert (status.reason if status.run is None else None) == reason
