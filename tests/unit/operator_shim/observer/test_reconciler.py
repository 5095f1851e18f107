"""The observer's loop: what is signalled and written, how often, and what is not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from control.informer import Key
from control.metrics import Metrics
from inferrun import wellknown
from inferrun.names import job_name
from inferrun.run_ref import RunRef
from inferrun.runner_report import RecordCounts
from inferrun.timestamps import utc_now
from operator_shim.observer.reconciler import Reconciler
from tests.unit.launches import (
    DISRUPTED,
    JOB_NAME,
    JOB_UID,
    KEY,
    UNSCHEDULED,
    live_job,
    live_pod,
    live_run,
    pod_spec,
    running,
)
from tests.unit.objects import NOW, RUN, Json, at, event, terminated, waiting
from tests.unit.operator_shim.observer.fakes import (
    FakeApiServer,
    FakeEvents,
    FakeLogs,
    FakeSignals,
    FakeTime,
    FakeWorkloads,
    FakeWriter,
    settle,
    until,
)
from workflows.signals import Ended, Started

POD = f"{JOB_NAME}-pod-a"
ENDED = Ended(job_uid=JOB_UID, launch=1)
ENDED_POD = Ended(job_uid=JOB_UID, launch=1, pod_uid="pod-a")
COMPLETE = live_job(clock=60, condition="Complete", version=2)
RUNNING = f"attempt 1 is running in Pod {POD}"


@dataclass
class Stage:
    """A leader and everything around it."""

    workloads: FakeWorkloads
    signals: FakeSignals
    writer: FakeWriter
    events: FakeEvents
    logs: FakeLogs
    api: FakeApiServer
    time: FakeTime
    reconciler: Reconciler | None = None
    server_time: datetime | None = None
    """None: the time of this process."""

    def new_reconciler(self) -> Reconciler:
        self.reconciler = Reconciler(
            self.workloads,
            signals=self.signals,
            writer=self.writer,
            events=self.events,
            logs=self.logs,
            jobs=self.api,
            node_lost_seconds=lambda: 300,
            server_time=lambda: self.server_time or utc_now(),
            sign=lambda ends: " ".join(end.pod_uid for end in ends),
            metrics=Metrics(),
        )
        return self.reconciler

    async def deliver(
        self, *, job: Json | None = None, pod: Json | None = None, run: Json | None = None
    ) -> None:
        """The watch delivers objects, and the reconciler handles the change."""
        self.workloads.put(job=job, pod=pod, run=run)
        await self.wake()

    async def wake(self, key: Key = KEY) -> None:
        assert self.reconciler is not None
        self.reconciler.wake(key)
        await settle()

    async def pass_by(self, seconds: float, *, step: float = 0.5) -> None:
        await self.time.pass_by(seconds, step=step)

    async def pod_runs(self, **pod: Any) -> None:
        """The watch delivers the Pod, whose container runs since it was created."""
        await self.deliver(pod=live_pod(running(at(pod.get("age", 0))), phase="Running", **pod))

    async def pod_ends(self, code: int, **pod: Any) -> None:
        """The watch delivers the Pod, whose container has ended."""
        await self.deliver(
            pod=live_pod(
                terminated(code), phase="Failed" if code else "Succeeded", version=2, **pod
            )
        )

    async def lose_job(self) -> None:
        """The watch says that there is no Job."""
        self.workloads.jobs.clear()
        await self.wake()

    @property
    def ended(self) -> list[Ended]:
        return self.signals.sent_ended

    @property
    def started(self) -> list[Started]:
        return self.signals.sent_started

    @property
    def started_pods(self) -> list[str]:
        return [one.pod_uid for one in self.started]

    @property
    def reasons(self) -> list[str]:
        return [str(progress.reason) for progress in self.writer.written]


@pytest.fixture
async def stage() -> Stage:
    workloads = FakeWorkloads()
    return Stage(
        workloads,
        FakeSignals(),
        FakeWriter(workloads),
        FakeEvents(),
        FakeLogs(),
        FakeApiServer(),
        FakeTime(asyncio.get_running_loop()),
    )


@asynccontextmanager
async def leading(stage: Stage, **objects: Json) -> AsyncIterator[Stage]:
    """One term of leadership, which begins with these objects."""
    stage.workloads.put(**objects)
    task = asyncio.create_task(stage.new_reconciler().run())
    await settle()
    try:
        yield stage
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def leader(stage: Stage) -> AsyncIterator[Stage]:
    """A leader that has seen a Job without a Pod, which the run's status names."""
    async with leading(stage, job=live_job(clock=60), run=live_run(message="")):
        yield stage


@pytest.mark.parametrize(("seconds", "lost"), [(299, 0), (300, 1)])
async def test_a_start_and_a_lost_node_are_judged_by_the_clock_of_the_server(
    leader: Stage, seconds: int, lost: int
) -> None:
    """That of this process is days ahead."""
    leader.server_time = NOW
    await leader.deliver(pod=live_pod(running(at(-30)), phase="Running"))
    [started] = leader.started
    assert started.started_at == at(0), "no container starts in the future"
    leader.server_time = NOW + timedelta(seconds=seconds)
    silent = [
        {"type": "Ready", "status": "False", "lastTransitionTime": at(0)},
        {"type": "ContainersReady", "status": "True"},
    ]
    await leader.pod_runs(version=2, conditions=silent)
    assert len(leader.ended) == lost


async def test_a_warning_is_written_at_once_and_only_once(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(node=None, conditions=[UNSCHEDULED]))
    assert leader.reasons == ["Unschedulable"]
    assert leader.writer.written[0].is_warning
    await leader.pass_by(600)
    assert leader.reasons == ["Unschedulable"]
    assert leader.events.requested == []
    assert (leader.started, leader.ended) == ([], [])


async def test_a_wait_that_lasts_is_written_without_being_a_warning(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(waiting("ContainerCreating")))
    await leader.pass_by(21)
    assert leader.reasons == ["PodScheduled"]


async def test_a_pod_that_takes_seconds_to_start_costs_one_write(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(waiting("ContainerCreating")))
    await leader.pass_by(18)
    await leader.pod_runs(version=2)
    await leader.pass_by(20)
    assert leader.reasons == ["Running"]


async def test_a_status_is_written_at_most_every_five_seconds(leader: Stage) -> None:
    for number in range(19):
        states = (
            waiting("ErrImagePull", f"no {number}"),
            waiting("CreateContainerError", f"no {number}"),
        )
        await leader.deliver(pod=live_pod(states[number % 2], version=number))
        await leader.pass_by(1)
    assert len(leader.reasons) == 4


async def test_the_last_of_several_changes_is_written(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(waiting("ErrImagePull", "first")))
    await leader.deliver(pod=live_pod(waiting("CreateContainerError", "second"), version=2))
    await leader.deliver(pod=live_pod(waiting("CreateContainerError", "third"), version=3))
    await leader.pass_by(6)
    assert [progress.message.rpartition(" ")[2] for progress in leader.writer.written][1:] == [
        "third"
    ]


async def test_a_start_is_signalled_once_and_only_then_written(leader: Stage) -> None:
    leader.signals.accepts = False
    await leader.pod_runs(age=5)
    assert leader.writer.written == []
    leader.signals.accepts = True
    await leader.pass_by(11)
    assert leader.started_pods == ["pod-a", "pod-a"]
    assert leader.reasons == ["Running"]
    await leader.pass_by(1000)
    await leader.wake()
    assert len(leader.started) == 2
    assert leader.reasons == ["Running"]


async def test_without_a_clock_a_start_is_only_written(stage: Stage) -> None:
    async with leading(stage, job=live_job(), run=live_run()):
        await stage.pod_runs()
        assert stage.started == []
        assert [progress.message for progress in stage.writer.written] == [RUNNING]


async def test_a_run_that_cannot_be_read_does_not_end_the_term(stage: Stage) -> None:
    bad = live_run(job_name="another", attempt="first")
    stage.workloads.put(job=live_job(), run=live_run())
    stage.workloads.runs["models", "bad"] = {
        **bad,
        "metadata": {**bad["metadata"], "name": "bad", "uid": "bad"},
    }
    async with leading(stage):
        await stage.pass_by(1)
        await stage.deliver(job=live_job(condition="Complete", version=2))
    assert [one.job_uid for one in stage.ended] == [JOB_UID]


async def test_the_end_of_a_job_that_lost_its_labels_is_signalled(leader: Stage) -> None:
    leader.api.jobs[KEY] = live_job()
    del leader.workloads.jobs[KEY]
    await leader.wake()
    await leader.pass_by(20)
    assert leader.ended == []
    leader.api.jobs[KEY] = live_job(condition="Complete", version=2)
    await leader.pass_by(6)
    assert [one.job_uid for one in leader.ended] == [JOB_UID]


@pytest.mark.parametrize("note", ["", "; one record is searched for"])
async def test_a_new_leader_does_not_repeat_what_the_status_acknowledges(
    stage: Stage, note: str
) -> None:
    async with leading(
        stage,
        job=live_job(clock=60),
        pod=live_pod(running(at(0)), phase="Running"),
        run=live_run(phase="Running", reason="Running", message=f"{RUNNING}{note}"),
    ):
        await stage.pass_by(100)
    assert stage.started == []
    assert len(stage.writer.written) == bool(note), "the note is outdated"


async def test_a_new_leader_signals_a_start_that_the_status_does_not_acknowledge(
    leader: Stage,
) -> None:
    leader.signals.is_down = True
    await leader.pod_runs()
    assert leader.started == []
    leader.signals.is_down = False
    async with leading(leader):  # the one before is still there, and may send it again
        assert {one.job_uid for one in leader.started} == {JOB_UID}
        assert leader.reasons == ["Running"]


async def test_a_new_leader_signals_the_start_of_another_pod_than_the_status_names(
    stage: Stage,
) -> None:
    async with leading(
        stage,
        job=live_job(clock=60),
        pod=live_pod(running(at(0)), uid="pod-b", phase="Running"),
        run=live_run(phase="Running", reason="Running", message=RUNNING),
    ):
        await stage.pass_by(6)
    assert stage.started_pods == ["pod-b"]
    assert "pod-b" in stage.writer.written[0].message


async def test_an_end_is_signalled_until_it_is_acknowledged(leader: Stage) -> None:
    await leader.deliver(job=COMPLETE)
    assert leader.ended == [ENDED]
    for passed, sent in ((9, 1), (2, 2), (20, 3), (40, 4)):
        await leader.pass_by(passed)
        assert len(leader.ended) == sent
    assert leader.signals.repeated == [False, True, True, True]
    await leader.pass_by(1200)
    assert 7 <= len(leader.ended) <= 11
    sent = len(leader.ended)
    await leader.deliver(run=live_run(phase="Succeeded", reason="Succeeded"))
    await leader.pass_by(1200)
    assert len(leader.ended) == sent


async def test_an_end_that_temporal_did_not_take_is_signalled_within_seconds(leader: Stage) -> None:
    leader.signals.is_down = True
    await leader.deliver(job=live_job(condition="Failed", version=2))
    await leader.pass_by(3)
    leader.signals.is_down = False
    await leader.pass_by(5)
    assert leader.ended == [ENDED]


async def test_the_end_of_an_earlier_launch_is_not_signalled(stage: Stage) -> None:
    second = job_name(JOB_NAME, 2)
    stage.workloads.put(job=live_job(name=second, uid="job-uid-2", launch=2))
    async with leading(
        stage, job=live_job(condition="Failed"), run=live_run(job_uid="job-uid-2", job_name=second)
    ):
        await stage.pass_by(100)
    assert stage.ended == []


async def test_an_end_is_signalled_before_the_status_names_the_job(stage: Stage) -> None:
    second = job_name(JOB_NAME, 2)
    async with leading(
        stage,
        job=live_job(condition="Failed", name=second, uid="job-uid-2", launch=2),
        run=live_run(),
    ):
        assert Ended(job_uid="job-uid-2", launch=2) in stage.ended


async def test_a_job_that_no_run_of_that_uid_owns_is_ignored(stage: Stage) -> None:
    forged = live_job(condition="Failed")
    forged["metadata"]["ownerReferences"] = []
    async with leading(stage, job=forged, run=live_run(job_uid=None)):
        await stage.pass_by(100)
    assert (stage.ended, stage.writer.written) == ([], [])


async def test_a_pod_that_can_never_start_is_signalled(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(waiting("InvalidImageName")))
    assert leader.ended == [ENDED_POD]
    assert leader.writer.written == []


@pytest.fixture
async def runner(stage: Stage) -> AsyncIterator[Stage]:
    """A leader that has announced the start of a Pod with the built-in runner."""
    async with leading(
        stage,
        job=live_job(clock=60, is_builtin=True),
        pod=live_pod(running(at(0)), phase="Running"),
        run=live_run(),
    ):
        await stage.pass_by(6)
        yield stage


async def test_a_pod_that_is_taken_away_is_signalled_once_and_the_next_one_waits(
    runner: Stage,
) -> None:
    await runner.pod_ends(137, conditions=[DISRUPTED])
    assert runner.ended == [ENDED_POD]
    await runner.deliver(pod=live_pod(uid="pod-b", node=None, conditions=[UNSCHEDULED]))
    await runner.pass_by(100)
    assert len(runner.ended) == 1
    assert runner.reasons[-1] == "Unschedulable"
    await runner.pod_runs(uid="pod-b", version=2)
    await runner.pass_by(6)
    assert runner.started_pods == ["pod-a", "pod-b"]
    assert runner.reasons[-1] == "Running"


async def test_a_quota_that_blocks_the_replacement_of_a_pod_is_reported(runner: Stage) -> None:
    runner.events.events = (event("FailedCreate", "exceeded quota: pods"),)
    await runner.pod_ends(137, conditions=[DISRUPTED])
    await runner.pass_by(12)
    assert runner.reasons[-1] == "QuotaExceeded"


async def test_a_pod_whose_contract_was_deleted_is_signalled_now_and_then(leader: Stage) -> None:
    missing = 'MountVolume.SetUp failed for volume "contract" : configmap "inf-iris-x" not found'
    leader.events.events = (event("FailedMount", missing),)
    await leader.deliver(pod=live_pod(waiting("ContainerCreating"), age=30))
    await leader.pass_by(12)
    assert leader.ended == [ENDED]
    assert leader.reasons[-1] == "VolumeNotMounted"
    await leader.pass_by(250)
    assert len(leader.ended) == 1
    await leader.pass_by(600)
    assert 2 <= len(leader.ended) <= 3
    await leader.pod_runs(version=2)
    await leader.pass_by(900)
    assert len(leader.ended) <= 3


@pytest.mark.parametrize("launch", [1, 2])
async def test_a_job_whose_pod_has_no_room_is_signalled(stage: Stage, launch: int) -> None:
    words = (
        "exceeded quota: small, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    )
    stage.events.events = (event("FailedCreate", words),)
    async with leading(stage, job=live_job(launch=launch, age=30), run=live_run()) as leader:
        await leader.pass_by(60)
        assert leader.reasons[-1] == "QuotaExceeded"
        assert leader.ended == [Ended(job_uid=JOB_UID, launch=launch)]


async def test_a_pod_that_succeeds_is_signalled_before_its_job_is_finished(leader: Stage) -> None:
    await leader.pod_runs(age=5)
    await leader.pod_ends(0, age=5)
    assert len(leader.ended) == 1
    await leader.deliver(job=live_job(clock=60, condition="Complete", version=3))
    assert len(leader.ended) == 1


async def test_a_pod_that_ends_by_itself_is_not_signalled_before_its_job(runner: Stage) -> None:
    await runner.pod_ends(0)
    await runner.pass_by(60)
    assert runner.ended == []
    assert runner.reasons == ["Running"]
    await runner.deliver(job=COMPLETE)
    assert runner.ended == [ENDED]


async def test_how_a_stopped_pod_ended_is_signalled_with_its_end(leader: Stage) -> None:
    await leader.pod_runs()
    leader.workloads.jobs.clear()
    await leader.pod_ends(143)
    await leader.pass_by(1)
    assert leader.signals.ends == ["pod-a"]


async def test_a_pod_that_vanishes_is_signalled_after_a_while(runner: Stage) -> None:
    runner.workloads.pods.clear()
    await runner.wake()
    assert runner.ended == []
    await runner.pass_by(11)
    assert runner.ended == [ENDED_POD]


async def test_progress_is_written_on_change_at_most_every_five_seconds(runner: Stage) -> None:
    assert runner.logs.followed[KEY][0] == POD
    for done in (1, 2, 3, 3, 3):
        runner.logs.report(KEY, RecordCounts(total=9, completed=done))
        await settle()
    await runner.pass_by(30)
    assert [
        one.report.records.completed for one in runner.writer.written if one.report is not None
    ] in ([1, 3], [3])


async def test_what_the_runner_does_instead_of_sending_as_usual_is_shown_while_it_does(
    runner: Stage,
) -> None:
    await runner.pass_by(10)
    for note in ("one record is searched for", ""):
        runner.logs.report(KEY, RecordCounts(total=9, completed=3), note=note)
        await settle()
        await runner.pass_by(10)
    assert [one.message for one in runner.writer.written[-2:]] == [
        f"{RUNNING}; one record is searched for",
        RUNNING,
    ]


async def test_a_pod_that_does_not_run_is_not_read(runner: Stage) -> None:
    await runner.deliver(job=live_job(clock=60, condition="Complete", version=2, is_builtin=True))
    assert runner.logs.followed == {}


async def test_the_logs_of_custom_images_are_not_read(leader: Stage) -> None:
    await leader.pod_runs()
    assert leader.logs.followed == {}


async def test_events_are_read_less_and_less_often_while_the_reason_stays(leader: Stage) -> None:
    counts = []
    for seconds in (4, 2, 5, 10, 20, 40, 80, 160, 300, 300):
        await leader.pass_by(seconds, step=0.1)
        counts.append(len(leader.events.requested))
    assert counts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert set(leader.events.requested) == {JOB_UID}
    await leader.deliver(pod=live_pod(waiting("ContainerCreating")))
    await leader.pass_by(6)
    assert leader.events.requested[9:] == ["pod-a"]


async def test_a_job_that_is_deleted_is_signalled_once_the_api_server_confirms_it(
    leader: Stage,
) -> None:
    await leader.lose_job()
    assert leader.ended == []
    await leader.pass_by(1)
    assert leader.ended == [ENDED]
    assert leader.api.asked == 1


async def test_a_job_that_is_gone_is_signalled_only_when_its_pods_are(leader: Stage) -> None:
    await leader.pod_runs()
    await leader.lose_job()
    await leader.pass_by(60)
    assert leader.ended == []
    await leader.pod_ends(137)
    await leader.pass_by(1)
    assert leader.ended == [ENDED]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"reason": "RetryBackoff"},
        {"job_uid": "job-uid-2", "job_name": job_name(JOB_NAME, 2)},
    ],
)
async def test_a_job_that_leaves_the_watch_after_its_end_was_recorded_costs_nothing(
    leader: Stage, status: dict[str, Any]
) -> None:
    leader.workloads.jobs.clear()
    leader.workloads.put(job=live_job(name=job_name(JOB_NAME, 2), uid="job-uid-2", launch=2))
    await leader.deliver(run=live_run(**status))
    await leader.pass_by(100)
    assert (leader.ended, leader.api.asked) == ([], 0)


def labelled(job: Json) -> Json:
    """The Job with the label of one whose end was recorded."""
    job["metadata"]["labels"][wellknown.LABEL_ENDED] = "true"
    return job


async def test_a_job_that_left_the_watch_because_it_is_labelled_is_not_signalled(
    leader: Stage,
) -> None:
    leader.api.jobs[KEY] = labelled(live_job(condition="Complete"))
    await leader.lose_job()
    await leader.pass_by(3)
    await leader.deliver(run=live_run(phase="Succeeded"))
    await leader.pass_by(60)
    assert (leader.ended, leader.api.restored, leader.api.asked) == ([], [], 1)


async def test_a_live_job_that_somebody_labels_as_ended_is_watched_again(leader: Stage) -> None:
    leader.api.jobs[KEY] = labelled(live_job(clock=60))
    await leader.pod_runs()
    await leader.lose_job()
    await leader.pass_by(1)
    assert leader.api.restored == [JOB_UID]
    await leader.deliver(job=live_job(clock=60, version=2))
    await leader.pass_by(60)
    await leader.deliver(job=live_job(clock=60, condition="Complete", version=3))
    assert leader.ended == [ENDED]
    assert leader.api.asked == 1


async def test_the_end_of_a_job_with_a_forged_label_is_signalled(leader: Stage) -> None:
    """Also if the label comes back each time it is removed."""
    leader.api.jobs[KEY] = labelled(live_job())
    await leader.lose_job()
    await leader.pass_by(20)
    assert leader.ended == []
    leader.api.jobs[KEY] = labelled(live_job(condition="Failed", version=2))
    await leader.pass_by(10)
    assert leader.ended == [ENDED]


async def test_a_job_of_a_run_that_has_finished_is_withdrawn(leader: Stage) -> None:
    """Its creator died between the creation and the status, and somebody recorded the run as
    cancelled meanwhile."""
    await leader.deliver(run=live_run(phase="Failed", reason="Cancelled", job_uid=None))
    await leader.pass_by(10)
    assert leader.api.withdrawn == []
    await leader.pass_by(6)
    assert leader.api.withdrawn == [JOB_UID]
    await leader.pass_by(600, step=5)
    assert 3 <= len(leader.api.withdrawn) <= 8


async def test_a_job_whose_pod_has_succeeded_gets_the_time_to_finish(leader: Stage) -> None:
    await leader.pod_runs(age=5)
    await leader.pod_ends(0, age=5)
    await leader.deliver(run=live_run(phase="Succeeded", reason="Succeeded"))
    await leader.pass_by(100)
    assert leader.api.withdrawn == []
    await leader.pass_by(30)
    assert leader.api.withdrawn == [JOB_UID]


async def test_a_job_of_an_earlier_launch_is_withdrawn(stage: Stage) -> None:
    second = job_name(JOB_NAME, 2)
    stage.workloads.put(job=live_job(), run=live_run(job_uid="job-uid-2", job_name=second))
    stage.api.jobs["models", second] = live_job(name=second, uid="job-uid-2", launch=2)
    async with leading(stage):
        await stage.pass_by(16)
        assert stage.api.withdrawn == [JOB_UID]


async def test_a_job_whose_run_arrives_late_is_not_withdrawn(stage: Stage) -> None:
    async with leading(stage, job=live_job()):
        await stage.pass_by(10)
        await stage.deliver(run=live_run())
        await stage.pass_by(60)
    assert stage.api.withdrawn == []


async def test_an_end_that_was_acknowledged_stays_so_whatever_the_status_says_next(
    leader: Stage,
) -> None:
    """The next launch waits for a quota, while the status still names the Job of the last one."""
    leader.workloads.jobs.clear()
    await leader.deliver(run=live_run(reason="RetryBackoff", endedLaunches=1))
    await leader.deliver(run=live_run(reason="QuotaExceeded", endedLaunches=1, version=2))
    await leader.pass_by(600, step=5)
    assert (leader.ended, leader.writer.written) == ([], [])


async def test_a_job_that_the_watch_has_not_delivered_yet_is_not_taken_for_gone(
    stage: Stage,
) -> None:
    stage.workloads.put(run=live_run())
    stage.api.jobs[KEY] = live_job(clock=9)
    async with leading(stage):
        await stage.pass_by(3)
        assert stage.ended == []
        await stage.deliver(job=live_job(clock=9), pod=live_pod(running(at(0)), phase="Running"))
        assert len(stage.started) == 1


async def test_a_new_leader_finds_the_run_whose_job_went_while_nobody_watched(stage: Stage) -> None:
    async with leading(stage, run=live_run()):
        await stage.pass_by(1)
    assert stage.ended == [ENDED]


def of_another_run(number: int, item: Json) -> Json:
    """The object, with the names and UIDs of another run and its Job."""
    text = (
        json.dumps(item)
        .replace(RUN.uid, f"run-uid-{number}")
        .replace(f'"{RUN.name}"', f'"run-{number}"')
    )
    changed: Json = json.loads(
        text.replace(JOB_UID, f"uid-{number}").replace(JOB_NAME, f"job-{number}")
    )
    return changed


async def test_a_new_leader_signals_first_what_ended_while_nobody_acted(stage: Stage) -> None:
    for number in range(200):
        pod = live_pod(node=None, conditions=[UNSCHEDULED], uid=f"pod-{number}")
        for kind, item in (("job", live_job()), ("pod", pod), ("run", live_run())):
            stage.workloads.put(**{kind: of_another_run(number, item)})
    stage.workloads.put(job=live_job(condition="Complete"), run=live_run())
    written: list[int] = []

    class Signals(FakeSignals):
        async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
            written.append(len(stage.writer.written))
            return await super().ended(run, signal, is_repeated=is_repeated)

    stage.signals = Signals()
    async with leading(stage):
        await until(lambda: len(stage.writer.written) == 200)
    assert written[0] <= 2


async def test_a_job_of_the_same_name_does_not_hide_that_the_first_one_is_gone(
    leader: Stage,
) -> None:
    other = live_job(uid="job-uid-x", version=9)
    leader.api.jobs[KEY] = other
    await leader.deliver(job=other)
    await leader.pass_by(1)
    assert leader.ended == [ENDED]


async def test_nothing_is_written_to_a_status_that_names_another_job(stage: Stage) -> None:
    async with leading(
        stage,
        job=live_job(),
        pod=live_pod(node=None, conditions=[UNSCHEDULED]),
        run=live_run(job_uid="another"),
    ):
        await stage.pass_by(30)
    assert stage.writer.written == []


async def test_an_unchanged_launch_causes_no_request(leader: Stage) -> None:
    await leader.deliver(pod=live_pod(node=None, conditions=[UNSCHEDULED]))
    await leader.pass_by(10)
    for _ in range(100):
        await leader.wake()
    assert len(leader.writer.written) == 1
    assert leader.events.requested == []
    assert leader.api.asked == 0


async def test_temporal_that_does_not_answer_delays_no_status(stage: Stage) -> None:
    stage.signals.hangs = True
    stage.workloads.put(job=live_job(condition="Failed"), run=live_run())
    second = ("models", "other")
    async with leading(stage):
        other = live_job(name="other", uid="job-2")
        stage.workloads.put(job=other)
        stage.workloads.put(
            pod=live_pod(node=None, uid="pod-2", owner="job-2", conditions=[UNSCHEDULED]),
            run=live_run(job_uid="job-2", job_name="other"),
        )
        assert stage.reconciler is not None
        stage.reconciler.wake(second)
        await until(lambda: bool(stage.writer.written))
    assert stage.reasons == ["Unschedulable"]


async def test_a_status_that_the_server_shortened_is_not_written_again(leader: Stage) -> None:
    leader.writer.is_delivered = False
    await leader.deliver(pod=live_pod(node=None, conditions=[UNSCHEDULED]))
    await leader.deliver(run=live_run(reason="Unschedulable", message="shortened"))
    await leader.pass_by(60)
    assert len(leader.writer.written) == 1


async def test_the_clock_of_a_replaced_pod_starts_with_its_own_signal(runner: Stage) -> None:
    """Also if nobody saw the first one go: the workflow hears of its end before it hears of the
    next start."""
    runner.workloads.pods.clear()
    await runner.pod_runs(uid="pod-b")
    await until(lambda: len(runner.started) == 2)
    assert runner.ended == [ENDED_POD]
    assert runner.started[1].pod_uid == "pod-b"


async def test_a_pod_that_waits_for_its_model_is_read_and_reported_and_starts_no_clock(
    leader: Stage,
) -> None:
    warm_up = {"name": "warm-up", "state": {"running": {"startedAt": at(5)}}}
    pod = live_pod(waiting("PodInitializing"))
    pod["status"]["initContainerStatuses"] = [warm_up]
    await leader.deliver(pod=pod)
    await until(lambda: KEY in leader.logs.followed)
    name, container, on_log = leader.logs.followed[KEY]
    assert (name, container) == (POD, "warm-up")
    on_log(KEY, '{"event": "warm-up", "seen": "http://m: status 503"}')
    await leader.pass_by(10)
    last = leader.writer.written[-1]
    assert (last.reason, last.started_at) == ("ModelNotReady", "")
    assert (
        last.message == f"Pod {POD} waits until the model answers; last seen: http://m: status 503"
    )
    assert leader.started == []
    await leader.pod_runs(version=2)
    await until(lambda: leader.started != [])
    assert KEY not in leader.logs.followed


async def test_the_loss_of_one_of_several_shards_is_neither_signalled_nor_written(
    stage: Stage,
) -> None:
    job = live_job(
        clock=60, is_builtin=True, spec={"completions": 2, "template": {"spec": pod_spec()}}
    )
    async with leading(stage, job=job, run=live_run(message="")) as leader:
        for uid, started in (("pod-a", 20), ("pod-b", 10)):
            await leader.deliver(
                pod=live_pod(running(at(started)), uid=uid, phase="Running", age=30)
            )
        await leader.pass_by(20)
        assert [started.pod_uid for started in leader.started] == ["pod-a"]
        await leader.deliver(
            pod=live_pod(terminated(137), uid="pod-a", phase="Failed", version=2, age=30)
        )
        await leader.pass_by(600)
        assert len(leader.started) == 1
        assert leader.ended == []
        assert leader.reasons == ["Running"]
        assert leader.logs.followed[KEY][0] == f"{JOB_NAME}-pod-b"


@pytest.mark.parametrize("is_over", [True, False], ids=["an end", "a start"])
async def test_a_signal_that_nobody_acknowledges_keeps_no_processor_busy(
    leader: Stage, *, is_over: bool
) -> None:
    await leader.deliver(pod=live_pod(waiting("ContainerCreating")))
    await leader.pass_by(1)
    leader.signals.accepts = False
    if is_over:
        await leader.deliver(job=live_job(clock=60, condition="Failed", version=2))
    else:
        await leader.pod_runs(version=2)
    reads = leader.workloads.reads
    await leader.pass_by(60)
    assert leader.workloads.reads - reads < 20


@pytest.mark.parametrize(
    "status", [{"phase": "Suspended", "reason": "Suspended"}, {"reason": "RetryBackoff"}]
)
async def test_a_planted_job_with_the_name_of_one_that_is_over_keeps_no_processor_busy(
    stage: Stage, status: Json
) -> None:
    async with leading(stage, job=live_job(uid="planted"), run=live_run(**status)):
        before = stage.workloads.reads
        await settle()
        assert stage.workloads.reads == before


async def test_the_start_of_the_next_pod_is_signalled_once_the_run_has_a_time_limit(
    stage: Stage,
) -> None:
    async with leading(stage, job=live_job(), run=live_run()):
        await stage.deliver(pod=live_pod(running(at(-30)), phase="Running"))
        assert stage.started == []
        await stage.deliver(job=live_job(clock=60, version=2))
        await stage.pod_ends(143, conditions=[DISRUPTED])
        await stage.deliver(pod=live_pod(running(at(-1)), uid="pod-b", phase="Running"))
        await stage.pass_by(30)
        assert stage.started_pods == ["pod-b"]
