"""Progress lines on standard output."""

import io
import json

from inferrun.plugins import Counts
from inferrun.runner_report import parse_progress
from runner.progress_log import ProgressLog


def test_progress_is_rate_limited_except_on_demand() -> None:
    now, out = [0.0], io.StringIO()
    log = ProgressLog(out, every=2.0, clock=lambda: now[0])
    for second in range(8):
        now[0] = second / 2
        log.report(Counts(total=100, completed=second))
    log.report_now(Counts(total=100, completed=99))
    completed = [json.loads(line)["records"]["completed"] for line in out.getvalue().splitlines()]
    assert completed == [0, 4, 99]


def test_the_control_plane_can_parse_progress_lines() -> None:
    out = io.StringIO()
    ProgressLog(out, every=2.0, clock=lambda: 0.0).report(Counts(total=20, completed=4, failed=1))
    progress = parse_progress(out.getvalue())
    assert progress
    assert (progress.records.total, progress.records.completed, progress.records.failed) == (20, 4, 1)
