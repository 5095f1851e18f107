"""Scene 8: two nightly schedules over files in S3, back-filled for ten days, and a result as a data
frame."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.terminal import Terminal

TITLE = "A nightly batch, ten days late"
STORY = """
Each night, a schedule classifies the flowers of the day before, which are in a file of their own, and a second schedule has another
model look at the results. Both are new, and ten days are missing. Back-fills start their runs as the schedules would have done.
"""
FIRST, LAST = "2026-11-02", "2026-11-11"
"""The nights after the first day and after the last one."""
DAYS = 10
FLOWERS = 60
CLASSES, REVIEW = "nightly-classes", "nightly-review"
S3CMD = f"kubectl exec -i -n {runs.NAMESPACE} deploy/s3 -- s3cmd"
PORT = 17_070
LAST_REVIEW = f"{REVIEW}-20261111020000"


def play(terminal: Terminal) -> None:
    terminal.run(
        "for day in 2026-11-{01..10}; do .venv/bin/python examples/nightly/make_day.py $day |"
        f" {S3CMD} put --quiet - s3://records/days/$day.csv; done && {S3CMD} ls s3://records/days/"
    )
    terminal.run(
        "kubectl apply -f examples/nightly/configs.yaml -f examples/nightly/schedules.yaml"
    )
    for schedule in (CLASSES, REVIEW):
        runs.wait_for_reason(terminal, schedule, "Scheduled", timeout=30)
    for schedule in (CLASSES, REVIEW):
        terminal.run(
            f"inferrun backfill {schedule} -n {runs.NAMESPACE} --name {schedule}-late --start {FIRST} --end {LAST} -c 3"
        )
    for schedule in (CLASSES, REVIEW):
        done = runs.wait_for_success(terminal, f"{schedule}-late", timeout=240)
        counts = done["backfill"]
        terminal.check(
            (counts["total"], counts["succeeded"]) == (DAYS, DAYS),
            f"each of the {DAYS} nights has a run of {schedule}",
            found=str(counts),
        )
    terminal.run(f"kubectl get inferencerun {LAST_REVIEW} -n {runs.NAMESPACE} -o wide")
    found = runs.get(terminal, "inferencerun", LAST_REVIEW) or {}
    interval = found["spec"]["interval"]
    terminal.check(
        (interval["start"], interval["end"]) == ("2026-11-10T02:00:00Z", "2026-11-11T02:00:00Z"),
        "its interval begins with the night before",
    )

    terminal.explain(
        "The result as a data frame. The S3 server is in the cluster, so its port is forwarded:"
    )
    terminal.run(
        f"kubectl port-forward -n {runs.NAMESPACE} service/s3 {PORT}:7070 >/dev/null & trap 'kill %1' EXIT; sleep 2;"
        f" .venv/bin/python examples/nightly/show_results.py {LAST_REVIEW} http://127.0.0.1:{PORT}"
    )
    records = found["status"]["records"]
    terminal.check(
        records == {"total": FLOWERS, "completed": FLOWERS, "failed": 0},
        f"the second model looked at all {FLOWERS} flowers of that day",
        found=json.dumps(records),
    )
