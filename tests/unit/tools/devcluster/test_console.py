"""The progress line: rewritten in place on a terminal, at most one line every 30 seconds elsewhere."""

import io
from collections.abc import Callable

import pytest

from tools.devcluster.console import CLEAR_LINE, Console, duration


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def console(*, is_terminal: bool, width: int = 100) -> tuple[Console, io.StringIO, Clock]:
    """A console whose ticker never runs: the test calls `tick`."""
    stream, clock, get_width = io.StringIO(), Clock(), _always(width)
    return Console(stream, is_terminal=is_terminal, clock=clock, width=get_width, ticks=False), stream, clock


def _always(value: int) -> Callable[[], int]:
    return lambda: value


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (12.3, "12 s"), (89.6, "90 s"), (90, "1 min 30 s"), (3600, "60 min 0 s")]
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_gets_at_most_one_progress_line_every_30_seconds() -> None:
    log, stream, clock = console(is_terminal=False)
    with log.plan({"compile": 170.0}), log.step("compile") as step:
        for second in range(120):
            step.update(f"package {second}", fraction=second / 120)
            clock.now += 1
            log.tick()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5
    assert all("left (" in line and "elapsed): compile (package " in line for line in lines[:4])
    assert lines[4] == "  compile: 2 min 0 s"


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    terminal, stream, clock = console(is_terminal=True)
    with terminal.step("start etcd"):
        for _ in range(5):
            clock.now += 1
            terminal.tick()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().split(CLEAR_LINE)[-2:] == ["  start etcd: 5.0 s so far", ""]


def test_a_quick_step_leaves_no_line_and_a_long_one_its_duration() -> None:
    log, stream, clock = console(is_terminal=False)
    with log.step("quick"):
        clock.now += 1
    with log.step("long"):
        clock.now += 12
    assert stream.getvalue() == "  long: 12 s\n"
