"""Daft's way: read, a column that a function makes of other columns in batches, write.

The function is asynchronous, so that Daft keeps several calls in progress, and sends with aiohttp;
texts use `prompt`, which Daft has for that. Runs in an environment of its own.
"""

import asyncio

import aiohttp
import daft
from daft import DataType, Series
from daft.ai.openai.provider import OpenAIProvider
from daft.functions import prompt

from campaigns.peers.clients.arguments import given
from campaigns.peers.records import INSTRUCTION, SYSTEM

INFER = f"{given.url}/v2/models/rows/infer"
CHAT = f"{given.url}/v1/chat/completions"


@daft.cls(max_concurrency=given.in_flight)
class Model:
    """A session for all requests of V2."""

    def __init__(self) -> None:
        self.session: aiohttp.ClientSession | None = None

    @daft.method.batch(return_dtype=DataType.float64(), batch_size=given.batch)
    async def predict(self, *columns: Series) -> list[float]:
        if self.session is None:
            self.session = aiohttp.ClientSession()
        if len(columns) == 1:
            values = columns[0].to_pylist()
        else:
            values = list(zip(*(column.to_pylist() for column in columns), strict=True))
        tensor = {"name": "input-0", "datatype": "FP32", "shape": [len(values), 4], "data": values}
        async with self.session.post(INFER, json={"inputs": [tensor]}) as response:
            response.raise_for_status()
            answer = await response.json()
            return answer["outputs"][0]["data"]


@daft.cls
class Chat:
    """A session for all chat requests, of which a batch of records makes many."""

    def __init__(self) -> None:
        self.session: aiohttp.ClientSession | None = None
        self.slots = asyncio.Semaphore(given.in_flight)

    @daft.method.batch(return_dtype=DataType.string())
    async def complete(self, bodies: Series) -> list[str]:
        if self.session is None:
            self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return await asyncio.gather(*(self._one(body) for body in bodies.to_pylist()))

    async def _one(self, body: object) -> str:
        async with self.slots, self.session.post(CHAT, json=body) as response:
            response.raise_for_status()
            return await response.text()


match given.form:
    case "rows":
        frame = daft.read_json(given.source)
        frame.with_column("prediction", Model().predict(frame["x"])).write_json(given.target)
    case "objects":
        frame = daft.read_json(given.source)
        columns = [frame[f"x{at}"] for at in range(4)]
        frame.with_column("prediction", Model().predict(*columns)).write_json(given.target)
    case "columns":
        frame = daft.read_parquet(given.source)
        columns = [frame[f"x{at}"] for at in range(4)]
        frame.with_column("prediction", Model().predict(*columns)).write_parquet(given.target)
    case "batch":
        frame = daft.read_json(given.source)
        answers = frame.select("custom_id", Chat().complete(frame["body"]).alias("response"))
        answers.write_json(given.target)
    case "texts":
        provider = OpenAIProvider(base_url=f"{given.url}/v1", api_key="none")
        # All prompts of a batch are in flight at once; of thousands, none was sent within minutes.
        frame = daft.read_parquet(given.source).into_batches(given.in_flight)
        question = daft.lit(INSTRUCTION) + frame["text"]
        answer = prompt(
            question,
            system_message=SYSTEM,
            provider=provider,
            model="m",
            use_chat_completions=True,
            max_tokens=64,
            concurrency=1,
        )
        frame.with_column("answer", answer).select("id", "answer").write_parquet(given.target)
