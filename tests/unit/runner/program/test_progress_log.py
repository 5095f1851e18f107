"""Progress lines on standard output."""

import io
import json
from dataclasses import replace

from inferrun.plugins import Counts
from inferrun.runner_report import SIZES, ProgressLine, latest_line
from inferrun_runner.program.progress_log import ProgressLog


def test_progress_is_rate_limited_except_on_demand() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=2.0, clock=lambda: now[0])
    for second in range(8):
        now[0] = second / 2
        log.report(Counts(total=100, completed=second))
    log.report_now(Counts(total=100, completed=99))
    completed = [json.loads(line)["records"]["completed"] for line in out.getvalue().splitlines()]
    assert completed == [0, 4, 99]


def test_the_rate_counts_what_this_attempt_has_done_within_a_minute() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=0.0, clock=lambda: now[0])
    log.report(Counts(total=10_000, completed=5000))  # what earlier attempts committed
    now[0] = 10.0
    sent = Counts(total=10_000, batch_records=64, concurrency=4, requests=20, failed_requests=3)
    sent = replace(sent, request_seconds=7.9, sent_bytes=4000, received_bytes=500, duplicates=40)
    log.report(replace(sent, completed=5900, failed=100))
    now[0] = 100.0
    log.report(Counts(total=10_000, completed=6790, failed=110))
    now[0] = 110.0
    log.report(Counts(total=10_000, completed=6890, failed=110))
    paces = [json.loads(line).get("pace") for line in out.getvalue().splitlines()]
    assert paces[0] is None
    assert paces[1] == {
        "recordsPerSecond": 100,
        "secondsLeft": 40,
        "batchRecords": 64,
        "concurrency": 4,
        "requests": 20,
        "failedRequests": 3,
        "requestSeconds": 7,
        "sentBytes": 4000,
        "receivedBytes": 500,
        "duplicateRecords": 40,
    }
    assert (paces[3]["recordsPerSecond"], paces[3]["secondsLeft"]) == (10, 300)


def test_the_control_plane_reads_the_pace_and_lines_without_one() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=0.0, clock=lambda: now[0])
    log.report(Counts(total=20))
    progress = latest_line(ProgressLine, out.getvalue())
    assert progress is not None
    assert progress.pace is None
    now[0] = 2.0
    log.report(Counts(total=20, completed=10))
    progress = latest_line(ProgressLine, out.getvalue())
    assert progress is not None
    assert progress.pace is not None
    assert (progress.pace.records_per_second, progress.pace.seconds_left) == (5, 2)


def test_an_attempt_whose_requests_fail_says_so_although_no_record_is_done() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=0.0, clock=lambda: now[0])
    log.report(Counts(total=20))
    now[0] = 2.0
    log.report(Counts(total=20, requests=7, failed_requests=7))
    progress = latest_line(ProgressLine, out.getvalue())
    assert progress is not None
    assert progress.pace is not None
    assert (progress.pace.records_per_second, progress.pace.seconds_left) == (0, None)
    assert (progress.pace.requests, progress.pace.failed_requests) == (7, 7)


def test_a_new_note_is_written_at_once() -> None:
    out = io.StringIO()
    log = ProgressLog(out, every=2.0, clock=lambda: 0.0)
    for note in ("", "a record is searched for", "a record is searched for", "", ""):
        log.report(Counts(total=20, note=note))
    assert [json.loads(line).get("note") for line in out.getvalue().splitlines()] == [
        None,
        "a record is searched for",
        None,
    ]


def test_the_control_plane_reads_a_note_and_shortens_a_long_one() -> None:
    out = io.StringIO()
    ProgressLog(out, every=2.0, clock=lambda: 0.0).report(
        Counts(total=20, note="a\n" + "b" * 10_000)
    )
    progress = latest_line(ProgressLine, out.getvalue())
    assert progress is not None
    assert progress.note.startswith("a b")
    assert len(progress.note) == SIZES.note
