"""A sample of the fault matrix, with traces; `make faults` runs all of it."""

from pathlib import Path

import pytest

from campaigns.faults.matrix import LATE_SECONDS, Options, execute
from tests.integration.traces.collector import collector, receiver

pytestmark = pytest.mark.thorough

SEED = 20261121
CASES = 10
SCENARIOS = ("succeeds", "fails", "cancelled", "deleted", "autodeleted", "submitted")


async def test_runs_with_a_fault_end_as_without(tmp_path: Path) -> None:
    async with receiver() as received:
        with collector(tmp_path, target=received.url) as address:
            options = Options(
                tmp_path,
                seed=SEED,
                sample=CASES,
                only=SCENARIOS,
                without=tuple(LATE_SECONDS),  # they take about a minute
                installations=2,
                at_a_time=5,
                collector=address,
                report=lambda _line: None,
            )
            matrix = await execute(options)

    assert [f"{result.case}: {result.problem}" for result in matrix.problems] == []
    assert matrix.unexpected_ends == []
    assert matrix.unlisted == set()
    assert len(matrix.results) == CASES
    assert received.problems() == []
    assert len({span.trace for span in received.spans}) > CASES
