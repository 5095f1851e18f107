"""How long a request waits before it is sent again, and when it is given up."""

import pytest

from runner.errors import InferenceError
from runner.retries import Transient, seconds_of, wait_before, with_retries


@pytest.mark.parametrize(("retry", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (1000, 10.0)])
def test_waits_double_up_to_ten_seconds(retry: int, seconds: float) -> None:
    assert wait_before(retry, retry_after=None, jitter=1.0) == seconds
    assert wait_before(retry, retry_after=None, jitter=0.0) == seconds / 2


def test_the_server_says_how_long_to_wait_up_to_a_minute() -> None:
    assert wait_before(1, retry_after=7.0, jitter=0.5) == 7.0
    assert wait_before(1, retry_after=3600.0, jitter=0.5) == 60.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), (" 0 ", 0.0), (None, None), ("", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_retry_after_is_read_where_it_is_a_number(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header) == seconds


async def test_a_failure_that_passes_is_not_seen() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise Transient(InferenceError("busy"), retry_after=0.0)
        return "done"

    assert await with_retries(attempt, budget=1.0) == "done"
    assert len(tries) == 3


async def test_what_does_not_pass_within_the_budget_is_raised_as_it_is() -> None:
    async def attempt() -> str:
        raise Transient(InferenceError("busy"), retry_after=2.0)

    with pytest.raises(InferenceError, match="busy"):
        await with_retries(attempt, budget=1.0)


async def test_another_failure_is_not_tried_again() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        raise InferenceError("wrong")

    with pytest.raises(InferenceError, match="wrong"):
        await with_retries(attempt, budget=60.0)
    assert len(tries) == 1
