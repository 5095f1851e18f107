"""How the progress of a run and the lines of its log are shown."""

import json
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from inferrun.cli.following import log_text
from inferrun.client import LogLine
from inferrun.client.progress import progress_view
from inferrun.resources import InferenceRun, parse_run
from tests.unit.objects import NOW


def run(**status: Any) -> InferenceRun:  # Any: JSON of a status
    metadata = {
        "name": "iris",
        "namespace": "models",
        "creationTimestamp": (NOW - timedelta(seconds=90)).isoformat(),
    }
    return parse_run(
        {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
    )


def shown(value: InferenceRun) -> str:
    console = Console(width=120, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(progress_view(value, now=NOW))
    return captured.get()


def test_a_run_that_waits_says_why_and_for_how_long() -> None:
    text = shown(run(phase="Pending", reason="Unschedulable", message="no node has enough memory"))
    assert "Pending (Unschedulable)" in text
    assert "1m30s · no node has enough memory" in text


def test_a_run_in_progress_shows_all_numbers() -> None:
    pace = {"recordsPerSecond": 1200, "secondsLeft": 75, "concurrency": 8}
    records = {"total": 100_000, "completed": 9_990, "failed": 10}
    text = shown(run(phase="Running", reason="Running", attempt=2, records=records, pace=pace))
    for fact in (
        "10%",
        "10,000/100,000",
        "10 failed",
        "1,200 records/s",
        "1m15s left",
        "8 requests at once",
        "attempt 2",
    ):
        assert fact in text


def test_numbers_of_any_size_can_be_shown() -> None:
    most = 2**63 - 1
    pace = {"recordsPerSecond": most, "secondsLeft": most, "concurrency": most}
    assert "records/s" in shown(
        run(phase="Running", records={"total": most, "completed": most}, pace=pace)
    )


def test_the_text_of_a_status_cannot_control_the_terminal() -> None:
    text = shown(
        run(phase="Failed", reason="\x1b[2JInferenceFailed", message="\x1b]0;x\x07[red]a[/red]")
    )
    assert "\x1b" not in text
    assert "[red]a[/red]" in text


def line(text: str, **more: Any) -> str:  # Any: fields of the line
    return log_text(LogLine(pod="p", time="2026-11-21T08:00:01.5Z", text=text, **more)).plain


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "time": "2026-11-21T08:00:00",
                "event": "log",
                "message": "ended",
                "detail": "done",
                "code": 0,
            },
            "08:00:00 ended: done code=0",
        ),
        (
            {
                "event": "progress",
                "records": {"total": 5000, "completed": 1500, "failed": 2},
                "pace": {"recordsPerSecond": 30},
            },
            "08:00:01 1,500 of 5,000 predicted, 2 failed, 30 records/s",
        ),
        (
            {"event": "warm-up", "seen": "connection refused"},
            "08:00:01 waiting for the model: connection refused",
        ),
        ({"event": "progress", "records": 3}, '08:00:01 {"event": "progress", "records": 3}'),
        ({"other": 1}, '08:00:01 {"other": 1}'),
    ],
)
def test_lines_of_the_built_in_runner_are_shown_as_text(
    given: dict[str, Any], expected: str
) -> None:
    assert line(json.dumps(given)) == expected


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, "null", '{"event": ["log"]}', '{"event": "log", "level": {"a": 1}}'],
)
def test_any_other_line_is_shown_as_it_is(text: str) -> None:
    assert line(text).startswith("08:00:01 ")


def test_a_line_of_a_custom_image_keeps_its_indentation_and_cannot_control_the_terminal() -> None:
    assert line("    at \x1b[31mmodule\x1b[0m\x07.main") == "08:00:01     at module .main"


def test_attempts_and_shards_are_told_apart() -> None:
    assert line("x", attempt=2, shard=3) == "shard 3 attempt 2 08:00:01 x"
