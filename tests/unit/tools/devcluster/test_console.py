"""The progress line: rewritten in place on a terminal, at most one line every 30 seconds
elsewhere."""

import io

import pytest

from tools.devcluster.console import CLEAR_LINE, Console, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (12.3, "12 s"), (89.6, "90 s"), (90, "1 min 30 s"), (3600, "60 min 0 s")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_log_gets_few_lines_and_a_terminal_one_that_is_rewritten(*, is_terminal: bool) -> None:
    stream, now = io.StringIO(), [1000.0]
    log = Console(
        stream, is_terminal=is_terminal, clock=lambda: now[0], width=lambda: 100, ticks=False
    )
    with log.plan({"compile": 170.0}), log.step("compile") as step:
        for second in range(120):
            step.update(f"package {second}", fraction=second / 120)
            now[0] += 1
            log.tick()
        if is_terminal:
            assert "\n" not in stream.getvalue()
            assert "compile (package 119)" in stream.getvalue().split(CLEAR_LINE)[-1]
        else:
            lines = stream.getvalue().splitlines()
            assert len(lines) == 4
            assert all("left (" in line and "elapsed): compile (package " in line for line in lines)
    with log.step("quick"):
        now[0] += 1
    assert stream.getvalue().endswith(CLEAR_LINE if is_terminal else "\n  compile: 2 min 0 s\n")
