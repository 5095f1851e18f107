"""Ray Data's way: read, `map_batches` over batches of rows, write.

Rows are sent with requests, a batch a request; chat requests with aiohttp, many at a time per
batch: the class that Ray has for them, `HttpRequestProcessorConfig`, sends one after the other.
Runs in an environment of its own.
"""

import asyncio
import json
from typing import Any

import aiohttp
import numpy
import ray
import requests

from campaigns.peers.clients.arguments import given
from campaigns.peers.records import chat_about

CHAT = f"{given.url}/v1/chat/completions"
CHAT_BATCH = 1000


def predict(batch: dict[str, Any]) -> dict[str, Any]:
    """Add the predictions of a batch to its columns."""
    if "x" in batch:
        values = [list(row) for row in batch["x"]]
    else:
        values = numpy.column_stack([batch[f"x{at}"] for at in range(4)]).tolist()
    tensor = {"name": "input-0", "datatype": "FP32", "shape": [len(values), 4], "data": values}
    response = requests.post(f"{given.url}/v2/models/rows/infer", json={"inputs": [tensor]})
    response.raise_for_status()
    batch["prediction"] = numpy.array(response.json()["outputs"][0]["data"])
    return batch


def complete(batch: dict[str, Any]) -> dict[str, Any]:
    """The responses to a batch of lines of a batch file."""
    responses = asyncio.run(_complete_all(list(batch["body"])))
    return {"custom_id": batch["custom_id"], "response": responses}


def answer(batch: dict[str, Any]) -> dict[str, Any]:
    """The answers to prompts made of a batch of texts."""
    responses = asyncio.run(_complete_all([chat_about(text) for text in batch["text"]]))
    texts = [json.loads(one)["choices"][0]["message"]["content"] for one in responses]
    return {"id": batch["id"], "answer": texts}


async def _complete_all(bodies: list[object]) -> list[str]:
    slots = asyncio.Semaphore(given.in_flight)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(body: object) -> str:
            async with slots, session.post(CHAT, json=body) as response:
                response.raise_for_status()
                return await response.text()

        return await asyncio.gather(*(one(body) for body in bodies))


ray.init(include_dashboard=False, _node_ip_address="127.0.0.1")
match given.form:
    case "rows" | "objects":
        rows = ray.data.read_json(given.source, lines=True)
        rows.map_batches(predict, batch_size=given.batch).write_json(given.target)
    case "columns":
        rows = ray.data.read_parquet(given.source)
        rows.map_batches(predict, batch_size=given.batch).write_parquet(given.target)
    case "batch":
        lines = ray.data.read_json(given.source, lines=True)
        lines.map_batches(complete, batch_size=CHAT_BATCH).write_json(given.target)
    case "texts":
        texts = ray.data.read_parquet(given.source)
        texts.map_batches(answer, batch_size=CHAT_BATCH).write_parquet(given.target)
