"""What the observer's writes change in the status of a run."""

from dataclasses import replace
from datetime import datetime

from control.launches.observation import Launch
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import Pace, ProgressLine, RecordCounts, TokenUsage
from inferrun.timestamps import parse
from operator_shim.observer.status_writer import ShownProgress, is_worth_an_event, status_with
from tests.unit.launches import JOB_NAME, JOB_UID, live_run
from tests.unit.objects import NOW, RUN, STARTED, run

LAUNCH = Launch(RUN, job_name=JOB_NAME, job_uid=JOB_UID, launch=1, attempt=1, is_builtin=True)
RUNNING = ShownProgress(Phase.RUNNING, Reason.RUNNING, "it runs", started_at=STARTED)
WAITING = ShownProgress(Phase.PENDING, Reason.QUOTA_EXCEEDED, "it waits")


def since_of(progress: ShownProgress, **status: object) -> datetime | None:
    live = live_run(**status)  # type: ignore[arg-type]
    written = status_with(run(status=live["status"]), launch=LAUNCH, progress=progress, now=NOW)
    assert written is not None
    return written.running_since


def test_the_status_says_since_when_a_container_runs_and_only_while_it_does() -> None:
    assert since_of(RUNNING) == parse(STARTED)
    assert since_of(WAITING, phase="Running", runningSince=STARTED) is None


def test_several_shards_have_run_since_the_first_of_them_started_whichever_stands_for_them() -> (
    None
):
    shards, earlier = replace(LAUNCH, shards=3), "2026-11-21T06:00:00Z"
    for launch, phase, since in (
        (shards, "Running", earlier),
        (shards, "Pending", STARTED),
        (LAUNCH, "Running", STARTED),
    ):
        stored = run(status=live_run(phase=phase, runningSince=earlier)["status"])
        written = status_with(stored, launch=launch, progress=RUNNING, now=NOW)
        assert written is not None
        assert written.running_since == parse(since)


def test_a_launch_that_counts_as_ended_is_not_written_about() -> None:
    stored = run(status=live_run(reason="QuotaExceeded", endedLaunches=1)["status"])
    assert status_with(stored, launch=LAUNCH, progress=WAITING, now=NOW) is None


def test_a_reason_is_worth_one_event_however_often_its_message_changes() -> None:
    rejected = ShownProgress(Phase.PENDING, Reason.QUOTA_EXCEEDED, "1 of 2", is_warning=True)
    before = run(status=live_run(reason="JobCreated")["status"]).status
    said = run(status=live_run(reason="QuotaExceeded", message="0 of 2")["status"]).status
    assert is_worth_an_event(before, rejected)
    assert not is_worth_an_event(said, rejected)
    assert not is_worth_an_event(before, WAITING)
    assert is_worth_an_event(before, RUNNING)


def test_the_wait_for_a_model_is_worth_one_event() -> None:
    """It may just be starting, so it is not a warning; `kubectl describe` shows why nothing
    happens."""
    waits = ShownProgress(Phase.PENDING, Reason.MODEL_NOT_READY, "last seen: status 503")
    said = run(
        status=live_run(reason="ModelNotReady", message="last seen: status 502")["status"]
    ).status
    assert is_worth_an_event(run(status=live_run(reason="JobCreated")["status"]).status, waits)
    assert not is_worth_an_event(said, waits)


def test_the_pace_is_in_the_status_only_while_a_container_runs() -> None:
    pace = Pace(records_per_second=9, seconds_left=1)
    usage = TokenUsage(prompt_tokens=2, total_tokens=2)
    line = ProgressLine(records=RecordCounts(completed=5), pace=pace, usage=usage)
    fast = ShownProgress(Phase.RUNNING, Reason.RUNNING, "it runs", report=line)
    written = status_with(run(status=live_run()["status"]), launch=LAUNCH, progress=fast, now=NOW)
    assert written is not None
    assert written.to_manifest()["pace"] == {
        "recordsPerSecond": 9,
        "secondsLeft": 1,
        "batchRecords": 0,
        "concurrency": 0,
        "requests": 0,
        "failedRequests": 0,
        "requestSeconds": 0,
        "sentBytes": 0,
        "receivedBytes": 0,
        "duplicateRecords": 0,
    }
    assert (written.usage, written.records) == (usage, line.records)
    stored = run(
        status={
            **written.to_manifest(),
            **live_run(phase="Running", usage=written.to_manifest()["usage"])["status"],
        }
    )
    waiting = status_with(stored, launch=LAUNCH, progress=WAITING, now=NOW)
    assert waiting is not None
    assert waiting.pace is None
    assert waiting.usage == usage
