"""Scene 8: a nightly schedule over files of days in S3, back-filled for ten days, with a second run behind each, and a dataframe."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.terminal import Terminal

TITLE = "Scene 8 of 8 · A nightly batch, ten days late"
STORY = """
Each night, a schedule classifies the flowers of the day before, and a second one has another model look at the results. Both are
new, and ten days are missing. A back-fill starts their runs as the schedules would have done; each reads the file of its own day.
"""
DAYS = [f"2026-11-{day:02}" for day in range(1, 11)]
FIRST, LAST = "2026-11-02", "2026-11-11"
"""The nights after the first and after the last day."""
S3CMD = f"kubectl exec -i -n {runs.NAMESPACE} deploy/s3 -- s3cmd"
FLOWERS = 60
SCHEDULES = ("nightly-classes", "nightly-review")


def play(terminal: Terminal) -> None:
    terminal.run(
        f"for day in {DAYS[0]} {DAYS[1]} … {DAYS[-1]}; do echo $day; done | head -0; "
        f"for day in {{01..10}}; do .venv/bin/python examples/nightly/make_day.py 2026-11-$day |"
        f" {S3CMD} put --quiet - s3://records/days/2026-11-$day.csv; done"
    )
    terminal.run("kubectl apply -f examples/nightly/configs.yaml -f examples/nightly/schedules.yaml")
    for schedule in SCHEDULES:
        runs.wait_for_reason(terminal, schedule, "Scheduled", timeout=30)
        terminal.run(
            f"inferrun -n {runs.NAMESPACE} backfill {schedule} --start {FIRST} --end {LAST}T23:59:59Z --concurrency 4"
        )
    for schedule in SCHEDULES:
        _wait_for_backfill(terminal, schedule)
    terminal.run(f"kubectl get inferenceruns -n {runs.NAMESPACE} -l inferrun.dev/backfill-uid -o wide", timeout=30)
    _check(terminal)
