"""How runs are shown: in a narrow terminal, and back-fills among other runs."""

from datetime import UTC, datetime

import pytest
from rich.console import Console

from inferrun.cli.following import top_view
from inferrun.cli.terminal import OutputFormat, print_runs, print_table
from inferrun.resources import InferenceRun, parse_run

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
LONG = "a-name-as-long-as-names-of-runs-become-20261124020000-x7k2p"


def run(name: str, spec: dict[str, object], **status: object) -> InferenceRun:
    metadata = {"name": name, "namespace": "team", "creationTimestamp": "2026-11-24T11:59:00Z"}
    return parse_run(
        {
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Running", "reason": "Running", **status},
        }
    )


BUSY = run(
    LONG,
    {"configRef": {"name": "iris"}},
    records={"total": 2_000_000, "completed": 500_000, "failed": 10},
    pace={"recordsPerSecond": 50_120, "secondsLeft": 35, "concurrency": 128, "batchRecords": 10},
)
LATE = run(
    "late",
    {
        "backfill": {
            "schedule": "nightly",
            "start": "2026-11-01T00:00:00Z",
            "end": "2026-11-10T00:00:00Z",
        }
    },
    backfill={
        "total": 10,
        "succeeded": 3,
        "failed": 1,
        "skipped": 2,
        "estimatedCompletionTime": "2026-11-24T12:40:00Z",
    },
)


def top(width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as shown:
        console.print(
            top_view([BUSY, LATE], place="team", now=NOW, width=width, has_namespaces=False)
        )
    return shown.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_top_shows_rate_and_time_left_in_every_terminal(width: int) -> None:
    lines = top(width)
    assert all(len(line) <= width for line in lines)
    head, header, busy, *_ = lines
    assert "50,120 records/s" in head
    assert {"NAME", "PHASE", "RATE", "LEFT"} <= set(header.split())
    assert "50,120/s" in busy
    assert "35s" in busy
    assert ("25%" if width < 90 else "500,010/2,000,000") in busy
    (late,) = [line for line in lines if line.startswith("late")]
    assert ("60%" if width < 90 else "6/10") in late
    assert "40m" in late


def test_no_line_of_a_table_is_filled_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "DONE", "OUTPUT"), [("a", 1, ""), ("longer", 1000, "s3://a/b")])
    assert capsys.readouterr().out == "NAME    DONE  OUTPUT\na          1\nlonger  1000  s3://a/b\n"


def test_of_a_backfill_the_runs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_runs([BUSY, LATE], output=OutputFormat.WIDE, is_list=True, now=NOW)
    header, busy, late = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header[:6] == ["NAME", "PHASE", "REASON", "CONFIG", "DONE", "FAILED"]
    assert busy[4:6] == ["500,000/2,000,000", "10"]
    assert late[:5] == ["late", "Running", "Running", "3/10", "1"]
