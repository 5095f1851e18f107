"""Which chunk a Pod claims next, and when it takes over another one's."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from inferrun.plugins import Claim, Member, Survey
from inferrun_runner.shards.allocation import SLOW_FACTOR, Allocation, order_of

OWN = Member(name="own", shard=1, launch=2)
OTHER = Member(name="other", shard=0, launch=2)
PATIENCE = 30.0


def allocation(chunks: int = 6, *, shards: int = 2) -> Allocation:
    return Allocation(chunks, own=OWN, shards=shards, patience=PATIENCE)


def all_claimed(by: Member, *, now: float = 0.0, committed: int = 5) -> Allocation:
    """Of six chunks all but the last are committed, and that one is claimed by another Pod."""
    made = allocation()
    claims = {committed: Claim(committed, 0, by.name)}
    made.learn(Survey(frozenset(range(committed)), claims, {by.name: by}), now=now)
    return made


@given(chunks=some.integers(0, 300), shards=some.integers(1, 64))
def test_the_orders_of_all_pods_begin_with_ranges_that_divide_the_chunks(
    chunks: int, shards: int
) -> None:
    own: list[int] = []
    for shard in range(shards):
        order = order_of(chunks, shard=shard, shards=shards)
        assert sorted(order) == list(range(chunks))
        own += order[: chunks * (shard + 1) // shards - chunks * shard // shards]
    assert own == list(range(chunks))


def test_a_pod_claims_its_own_range_first_and_then_the_others_from_their_ends() -> None:
    made, claimed = allocation(), list[int]()
    while (claim := made.next_chunk(now=0)) is not None:
        claimed.append(claim.chunk)
        made.has_claimed(claim, now=0)
    assert claimed == [3, 4, 5, 2, 1, 0]


def test_a_claim_that_another_pod_made_first_is_not_tried_again() -> None:
    made = allocation()
    first = made.next_chunk(now=0)
    assert first == Claim(3, 0, "own")
    made.has_lost(first, now=0)
    assert made.next_chunk(now=0) == Claim(4, 0, "own")


def test_a_silent_pod_is_replaced_after_the_patience_of_this_pods_clock() -> None:
    made = all_claimed(OTHER, now=100)
    assert made.next_chunk(now=100 + PATIENCE - 0.1) is None
    assert made.next_chunk(now=100 + PATIENCE) == Claim(5, 1, "own")


def test_a_pod_that_gives_signs_of_life_keeps_its_claims() -> None:
    made = all_claimed(OTHER)
    for beat in range(1, 20):
        alive = replace(OTHER, beat=beat)
        made.learn(
            Survey(frozenset(range(5)), {5: Claim(5, 0, "other")}, {"other": alive}),
            now=beat * PATIENCE / 2,
        )
        assert made.next_chunk(now=beat * PATIENCE / 2) is None


def test_a_pod_that_is_much_slower_than_this_one_loses_its_claim() -> None:
    made = allocation()
    made.has_claimed(Claim(4, 0, "own"), now=0)
    made.has_committed(4, now=100)
    for now in range(100, 600, 10):
        alive = replace(OTHER, beat=now)
        made.learn(
            Survey(frozenset(range(5)), {5: Claim(5, 0, "other")}, {"other": alive}), now=now
        )
        free = made.next_chunk(now=now)
        assert (free == Claim(5, 1, "own")) == (now >= 100 + SLOW_FACTOR * 100)


def test_claims_of_pods_that_cannot_be_alive_are_free_at_once() -> None:
    for gone in (
        replace(OTHER, has_ended=True),
        replace(OTHER, launch=1),
        replace(OTHER, shard=OWN.shard),
    ):
        assert all_claimed(gone).next_chunk(now=0) == Claim(5, 1, "own")
    assert all_claimed(replace(OTHER, launch=3)).next_chunk(now=0) is None


def test_a_claim_of_a_pod_that_nobody_has_seen_is_respected_for_a_while() -> None:
    made = allocation()
    made.learn(Survey(frozenset(range(5)), {5: Claim(5, 3, "unknown")}), now=0)
    assert made.next_chunk(now=PATIENCE - 1) is None
    assert made.next_chunk(now=PATIENCE) == Claim(5, 4, "own")


def test_only_one_pod_at_a_time_commits_the_run() -> None:
    made = all_claimed(OTHER, committed=6)
    made.learn(Survey(frozenset(range(6)), {6: Claim(6, 0, "other")}, {"other": OTHER}), now=0)
    assert made.is_complete
    assert made.next_commit(now=PATIENCE - 1) is None
    assert made.next_commit(now=PATIENCE) == Claim(6, 1, "own")
    assert allocation().next_commit(now=0) == Claim(6, 0, "own")
