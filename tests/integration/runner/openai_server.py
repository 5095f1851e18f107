"""A server with OpenAI's API whose faults a test chooses, and a real one: llama.cpp with a tiny
model made on the spot."""

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import Hook, nothing, serving
from tools.devcluster.servers_for_tests import llama_python

EXAMPLE = Path(__file__).parents[3] / "examples" / "llm-server"


@dataclass
class OpenAiServer:
    """Responds to each prompt with the prompt; counts the prompts."""

    url: str = ""
    token: str = ""
    before: Hook = nothing
    status_of_list: int = 200
    prompts: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """Return no models."""
        listed = web.json_response({"object": "list", "data": []}, status=self.status_of_list)
        return self._refusal(request) or listed

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Return the last message."""
        self.in_flight += 1
        try:
            # orjson refuses some JSON that real servers accept
            body = json.loads(await request.read())
            prompt = body["messages"][-1]["content"]
            if refusal := self._refusal(request):
                return refusal
            if (other := await self.before(request)) is not None:
                return other
            if prompt == "bad":
                return web.json_response(
                    {"error": {"message": "bad prompt", "code": None}}, status=400
                )
            self.prompts[prompt] += 1
            self.models[body["model"]] += 1
            headers = {"x-request-id": f"req-{prompt}"} if prompt.isprintable() else {}
            return web.json_response(_completion(body["model"], prompt), headers=headers)
        finally:
            self.in_flight -= 1

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"error": {"message": "wrong key"}}, status=401)
        return None


def _completion(model: str, prompt: str) -> dict[str, Any]:  # Any: JSON
    message = {"role": "assistant", "content": prompt}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


@asynccontextmanager
async def openai_server() -> AsyncIterator[OpenAiServer]:
    """Start a server on a free port."""
    server = OpenAiServer()
    app = web.Application()
    app.router.add_get("/v1/models", server.list_models)
    app.router.add_post("/v1/chat/completions", server.complete)
    async with serving(app) as server.url:
        yield server


@asynccontextmanager
async def posted(
    path: str, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> AsyncIterator[str]:
    """Start a server that answers what is posted to a path, and return its URL."""
    app = web.Application()
    app.router.add_post(path, answer)
    async with serving(app) as url:
        yield url


@asynccontextmanager
async def llama_server(folder: Path) -> AsyncIterator[str]:
    """Start llama.cpp's server with a tiny model of random weights, and return its URL."""
    python = llama_python()
    if not python.exists():
        pytest.skip("llama.cpp is required: python -m tools.devcluster test-servers")
    model = folder / "tiny.gguf"
    await _run(str(python), str(EXAMPLE / "make_model.py"), str(model))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(EXAMPLE / "serve.py"), str(model), "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _until_ready(f"http://127.0.0.1:{port}/health", seconds=120)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=sys.stderr)
    assert await process.wait() == 0


async def _until_ready(url: str, *, seconds: float) -> None:
    async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.1)


def batch_machine(folder: Path, s3: S3Server, url: str) -> Machine:
    """A run whose input is the file `in/batch.jsonl` of the bucket, in the form of OpenAI's Batch
    API."""
    contract = {
        "jobId": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
        "jobName": "inf-batch-5be07ada",
        "kserve": {"modelUrl": url, "protocolVersion": "openai"},
        "input": {"s3": s3.spec("in/batch.jsonl", format="openai")},
        "output": {"s3": s3.spec("out", format="openai")},
    }
    machine = Machine(folder, contract=contract)
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    (s3.bucket / "in").mkdir()
    return machine
