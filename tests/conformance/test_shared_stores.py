"""What an output store must do whose chunks several Pods divide among themselves (`shards`)."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from inferrun.plugins import Claim, Counts, Member, OutputStore, SharedStore, TokenUsage
from inferrun.plugins.testing import OutputWorld
from inferrun.plugins.testing.outputs import CHUNKS, WHOLE, begin, predict
from inferrun.plugins.testing.worlds import RUN
from inferrun.stores import shared_labels
from tests.conformance.worlds import OUTPUTS, Disk


def shared(store: OutputStore) -> SharedStore:
    """The store, as Pods divide its chunks."""
    assert store.abilities.shared is not None
    return store.abilities.shared


@pytest.fixture(params=shared_labels("output"))
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as world:
        yield world


async def test_of_two_claims_with_the_same_chunk_and_generation_the_first_is_recorded(
    world: OutputWorld,
) -> None:
    async with world.open(pod="pod-1") as one, world.open(pod="pod-2") as other:
        await begin(one)
        await begin(other)
        assert await shared(one).claim(Claim(1, 0, "pod-1"))
        assert not await shared(other).claim(Claim(1, 0, "pod-2"))
        assert await shared(other).claim(Claim(0, 0, "pod-2"))
        assert await shared(other).claim(Claim(1, 1, "pod-2"))
        assert await shared(one).claim(Claim(len(CHUNKS), 0, "pod-1"))
        for store in (one, other):
            survey = await shared(store).survey()
            assert survey.claims == {
                0: Claim(0, 0, "pod-2"),
                1: Claim(1, 1, "pod-2"),
                len(CHUNKS): Claim(len(CHUNKS), 0, "pod-1"),
            }
            assert (survey.committed, survey.is_run_committed) == (frozenset(), False)


async def test_a_committed_chunk_has_no_claim(world: OutputWorld) -> None:
    async with world.open(pod="pod-1") as store:
        await begin(store)
        await shared(store).claim(Claim(1, 0, "pod-1"))
        await predict(store, CHUNKS[1:2])
        survey = await shared(store).survey()
        assert (survey.committed, dict(survey.claims)) == (frozenset({1}), {})


async def test_the_latest_sign_of_life_of_each_pod_is_found(world: OutputWorld) -> None:
    first = Member(name="pod-1", shard=0, launch=1)
    second = Member(
        name="pod-2",
        shard=1,
        launch=2,
        failed=3,
        usage=TokenUsage(total_tokens=5),
        verdict="too many",
    )
    async with world.open(pod="pod-1") as one, world.open(pod="pod-2") as other:
        await begin(one)
        await begin(other)
        assert (await shared(one).survey()).members == {}
        await shared(one).report(first)
        await shared(other).report(second)
        assert (await shared(one).survey()).members == {"pod-1": first, "pod-2": second}
        later = replace(first, beat=1, has_ended=True)
        await shared(one).report(later)
        assert (await shared(other).survey()).members == {"pod-1": later, "pod-2": second}


async def test_one_pod_commits_what_several_have_predicted(world: OutputWorld) -> None:
    counts = Counts(total=30, completed=30)
    async with world.open(pod="pod-1") as one, world.open(pod="pod-2") as other:
        await begin(one)
        await begin(other)
        for store in (one, other):
            await shared(store).report(Member(name="pod", shard=0, launch=1))
        await shared(one).claim(Claim(2, 0, "pod-1"))
        await predict(one, CHUNKS[2:])
        await predict(other, CHUNKS[:2])
        commits = await shared(one).read_commits()
        assert sorted(commits) == [0, 1, 2]
        assert sum(commit.counts.completed for commit in commits.values()) == 30
        await one.finish(counts)
        assert (await shared(other).survey()).is_run_committed
        assert (
            not await shared(other).claim(Claim(2, 1, "pod-2"))
            or (await shared(other).survey()).is_run_committed
        )
    assert world.stored(RUN) == WHOLE
    async with world.open(pod="pod-3") as store:
        assert (await store.open()).committed_run is not None
