"""A pytest plugin that limits how many tests of a stage may need their second attempt.

The tests on real components share one small machine, where any one of about a thousand can fail because something else took its
time or its port. A failed test is therefore executed once more (`--reruns 1`), and its first failure stays in the output. More
than a few of those are not chance, and fail the stage.
"""

import pytest

LIMIT = 3

KNOWN = "tests.workflow.stage.ServerDefect"
"""The error of a test that met a known defect of a server for tests. It says nothing about the product, and is not counted."""


class SecondAttempts:
    """Counts the tests that were executed again."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a first attempt that failed."""
        is_repeated = report.outcome == "rerun"  # type: ignore[comparison-overlap]  # added by pytest-rerunfailures
        if is_repeated and KNOWN not in report.longreprtext:
            self.failures[report.nodeid] = report.longreprtext

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the stage if there are too many."""
        if len(self.failures) > LIMIT:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the first failure of each."""
        for test, failure in sorted(self.failures.items()):
            terminalreporter.section(f"second attempt: {test}")
            terminalreporter.write_line(failure)
        if len(self.failures) > LIMIT:
            terminalreporter.write_line(
                f"{len(self.failures)} tests needed a second attempt; at most {LIMIT} may", red=True
            )


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that reports, and not in the workers of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondAttempts(), "second-attempts")
