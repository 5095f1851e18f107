"""When too many records have failed."""

import pytest

from inferrun.contract import Contract
from inferrun.error_threshold import ErrorThreshold
from inferrun.plugins import (
    Batch,
    Chunk,
    ChunkCommit,
    ContractError,
    InputPlan,
    JsonRecords,
    RecordError,
    ResultCounts,
    Results,
)
from inferrun_runner.errors import TooManyErrors
from inferrun_runner.sending.error_budget import ErrorBudget, budget_of

CHUNKS = tuple(Chunk(index, 0, 10 * index, 10 * index + 10, 10 * index, 10) for index in range(10))
PLAN = InputPlan("f", CHUNKS)
ERROR = RecordError("rejected", "bad record")


def budget(
    threshold: str = "", *, canary: int = 0, committed: dict[int, int] | None = None
) -> ErrorBudget:
    """The budget of 100 records; of the committed chunks, so many records failed."""
    done = {
        index: ChunkCommit(ResultCounts(10 - failed, failed))
        for index, failed in (committed or {}).items()
    }
    made = budget_of(
        Contract(job_id="a", job_name="b", error_threshold=threshold, canary_records=canary),
        total=100,
    )
    made.begin(PLAN, done)
    return made


def add(to: ErrorBudget, first: int, count: int, failed: int) -> None:
    values = JsonRecords([b"1"] * count)
    to.add(Batch(first, values), Results(values, dict.fromkeys(range(failed), ERROR)))


def test_the_error_after_the_last_one_that_is_allowed_ends_the_run() -> None:
    one = budget("5%")
    add(one, 0, 50, 5)
    with pytest.raises(TooManyErrors) as raised:
        add(one, 50, 10, 1)
    assert str(raised.value) == (
        "6 of 100 records failed, more than errorThreshold 5% (5) allows; the first error: bad record"
    )
    assert not raised.value.is_retryable


def test_errors_of_earlier_attempts_count() -> None:
    one = budget("3", committed={2: 2, 7: 1})
    with pytest.raises(
        TooManyErrors, match=r"^4 of 100 records failed, more than errorThreshold 3 allows"
    ):
        add(one, 0, 10, 1)
    with pytest.raises(TooManyErrors):
        budget("2", committed={2: 2, 7: 1})


def test_the_canary_has_a_budget_of_its_own() -> None:
    one = budget("10%", canary=20)
    with pytest.raises(TooManyErrors) as raised:
        add(one, 0, 20, 3)
    assert "3 of 20 canary records failed, more than errorThreshold 10% (2) allows" in str(
        raised.value
    )
    assert "so the other 80 were not sent" in str(raised.value)


def test_a_canary_passes_with_its_last_record() -> None:
    one = budget("10%", canary=20)
    add(one, 0, 10, 2)
    assert not one.canary_passed.is_set()
    add(one, 10, 10, 0)
    assert one.canary_passed.is_set()
    add(one, 20, 10, 8)  # 10 % of all


def test_without_a_threshold_a_canary_fails_only_as_a_whole() -> None:
    one = budget(canary=20)
    add(one, 0, 10, 10)
    with pytest.raises(
        TooManyErrors, match="all 20 canary records failed, so the other 80 were not sent"
    ):
        add(one, 10, 10, 10)
    other = budget(canary=20)
    add(other, 0, 20, 19)
    assert other.canary_passed.is_set()


def test_a_canary_continues_after_the_chunks_that_are_committed() -> None:
    assert budget("10%", canary=20, committed={0: 0, 1: 2}).canary_passed.is_set()
    one = budget("10%", canary=20, committed={0: 2})
    assert not one.canary_passed.is_set()
    with pytest.raises(TooManyErrors):
        add(one, 10, 10, 1)


def test_a_canary_that_is_larger_than_the_input_is_the_input() -> None:
    one = budget("10%", canary=1000)
    add(one, 0, 100, 10)
    assert (one.canary, one.canary_passed.is_set()) == (100, True)


def test_rejections_end_the_run_before_their_batch_is_complete() -> None:
    one = budget("10%", canary=20)
    one.check_rejections(2, ERROR)
    with pytest.raises(TooManyErrors, match="3 of 20 canary records failed"):
        one.check_rejections(3, ERROR)


def test_the_counts_of_the_whole_run_decide_in_the_end() -> None:
    with pytest.raises(TooManyErrors):
        budget("1").check_committed(2)
    budget("2").check_committed(2)


def test_an_invalid_threshold_in_a_contract_is_named() -> None:
    with pytest.raises(
        ContractError,
        match=r"errorThreshold: must be a number of records such as 10, .*, got 'many'",
    ):
        budget("many")
    with pytest.raises(ContractError, match="canaryRecords: must be at least 0, got -1"):
        budget(canary=-1)


def test_a_budget_without_a_contract_has_no_limit() -> None:
    assert not ErrorBudget(total=0).is_limited
    assert ErrorBudget(total=0, threshold=ErrorThreshold.parse(0)).is_limited
