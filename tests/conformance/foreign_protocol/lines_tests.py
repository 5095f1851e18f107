"""The tests of the package: what every protocol must do, with a server that speaks this one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import pytest_asyncio

from inferrun.plugins.testing import CANARY, ProtocolTests, ServedModel


@asynccontextmanager
async def serving(model: ServedModel) -> AsyncIterator[None]:
    """Serve the model, at the address that its `url` has then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head := await reader.readline():
            rows = [json.loads(await reader.readline()) for _ in range(json.loads(head)["records"])]
            if model.failure == "broken":
                found = [f"{CANARY} is not JSON"]
            elif model.failure:
                found = [json.dumps({"error": model.failure, "text": CANARY})]
            else:
                found = [json.dumps(one) for one in model.respond(rows)]
            writer.write("".join(f"{one}\n" for one in found).encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 26)
    model.url = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield


class TestLines(ProtocolTests):
    name = "lines"

    @pytest_asyncio.fixture
    async def world(self) -> AsyncIterator[Self]:
        self.server = ServedModel()
        async with serving(self.server):
            yield self
