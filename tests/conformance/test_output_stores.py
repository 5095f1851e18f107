"""Every output store passes the conformance tests, which packages of others execute, too, and some
of our own."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from inferrun.plugins import TokenUsage
from inferrun.plugins.testing import AbortableTests, ExactlyOnceTests, OutputStoreTests, OutputWorld
from inferrun.plugins.testing.outputs import CHUNKS, WHOLE, batch, begin, complete, finish, results
from tests.conformance.worlds import CANARY, EXACTLY_ONCE, OUTPUTS, Disk, labels


class TestOutputStores(OutputStoreTests):
    @pytest.fixture(params=labels(OUTPUTS))
    async def world(self, request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
        async with OUTPUTS[request.param](disk) as world:
            yield world


class TestExactlyOnceStores(ExactlyOnceTests, AbortableTests):
    @pytest.fixture(params=labels(EXACTLY_ONCE))
    async def world(self, request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
        async with OUTPUTS[request.param](disk) as world:
            yield world

    async def test_no_credential_of_the_models_url_is_stored(
        self, world: OutputWorld, disk: Disk
    ) -> None:
        async with world.open() as store:
            await complete(store)
        stored = {path: path.read_bytes() for path in disk.folder.rglob("*") if path.is_file()}
        assert stored
        assert [path for path, content in stored.items() if CANARY.encode() in content] == []

    async def test_tokens_are_kept_across_attempts(self, world: OutputWorld) -> None:
        used = TokenUsage(prompt_tokens=5, completion_tokens=2, total_tokens=7)
        for pod, chunks in (("pod-1", CHUNKS[:1]), ("pod-2", CHUNKS[1:])):
            async with world.open(pod=pod) as store:
                await begin(store)
                for chunk in chunks:
                    writer = store.writer(chunk)
                    await writer.write(
                        batch([0] * 10, first=chunk.first), replace(results(WHOLE[:10]), usage=used)
                    )
                    assert (await writer.commit()).usage == used
        async with world.open(pod="pod-3") as store:
            await begin(store)
            run = await finish(store)
        assert run.usage == TokenUsage(prompt_tokens=15, completion_tokens=6, total_tokens=21)
