"""Every input store passes the conformance tests, which packages of others execute, too."""

from collections.abc import AsyncIterator

import pytest

from inferrun.plugins.testing import InputStoreTests, InputWorld
from tests.conformance.worlds import INPUTS, Disk, labels


class TestInputStores(InputStoreTests):
    @pytest.fixture(params=labels(INPUTS))
    async def world(self, request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[InputWorld]:
        async with INPUTS[request.param](disk) as world:
            yield world
