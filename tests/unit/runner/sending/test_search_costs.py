"""Requests until the bad records are found: only these fail, and the search takes no more than
before servers joined requests."""

import pytest

from inferrun.plugins import FaultKind
from tests.unit.runner.sending.search_costs import SPREADS, Joining, Separate, cost_of

MOST = {
    (FaultKind.REJECTED, "3 bad"): {1: 400, 16: 42, 100: 41},
    (FaultKind.REJECTED, "5 %"): {1: 400, 16: 140, 100: 164},
    (FaultKind.REJECTED, "50 %"): {1: 400 + 50, 16: 1025 + 40, 100: 844 + 40},
    (FaultKind.SERVER_ERROR, "3 bad"): {1: 406, 16: 52, 100: 49},
    (FaultKind.SERVER_ERROR, "5 %"): {1: 440, 16: 220, 100: 236},
    (FaultKind.SERVER_ERROR, "50 %"): {1: 800 + 10, 16: 1425 + 10, 100: 1244 + 10},
}
"""By the records of a request. What it took when each failure alone in its request was believed;
what is added is seen only if very many records fail."""


@pytest.mark.parametrize(("kind", "spread"), MOST)
@pytest.mark.parametrize("batch_rows", [1, 16, 100])
def test_a_server_that_joins_no_requests_gets_no_more_of_them(
    kind: FaultKind, spread: str, batch_rows: int
) -> None:
    cost = cost_of(Separate(SPREADS[spread], kind=kind), batch_rows=batch_rows)
    assert cost.failed == SPREADS[spread]
    assert cost.requests <= MOST[kind, spread][batch_rows]


@pytest.mark.parametrize("concurrency", [1, 8, 64])
@pytest.mark.parametrize(("kind", "spread"), MOST)
@pytest.mark.parametrize("batch_rows", [1, 16, 100])
def test_no_record_fails_because_of_others_that_the_server_joined_it_with(
    kind: FaultKind, spread: str, batch_rows: int, concurrency: int
) -> None:
    cost = cost_of(
        Joining(SPREADS[spread], kind=kind), batch_rows=batch_rows, concurrency=concurrency
    )
    assert cost.failed == SPREADS[spread]
