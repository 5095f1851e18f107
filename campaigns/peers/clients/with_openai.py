"""OpenAI's own client in a script: a task per record, and a semaphore for those in flight.

Runs in an environment of its own.
"""

import asyncio
import json
from pathlib import Path

import pyarrow
from openai import AsyncOpenAI
from pyarrow import parquet

from campaigns.peers.clients.arguments import given
from campaigns.peers.records import chat_about


async def main() -> None:
    """Send all requests, and write what is answered."""
    client = AsyncOpenAI(base_url=f"{given.url}/v1", api_key="none")
    slots = asyncio.Semaphore(given.in_flight)
    target = Path(given.target)
    target.mkdir()

    async def complete(**body: object) -> object:
        async with slots:
            return await client.chat.completions.create(**body)

    if given.form == "texts":
        table = parquet.read_table(given.source)
        bodies = [chat_about(text) for text in table["text"].to_pylist()]
        found = await asyncio.gather(*(complete(**body) for body in bodies))
        texts = [one.choices[0].message.content for one in found]
        parquet.write_table(
            pyarrow.table({"id": table["id"], "answer": texts}), target / "out.parquet"
        )
        return
    with Path(given.source).open() as lines:
        asked = [json.loads(line) for line in lines]
    found = await asyncio.gather(*(complete(**one["body"]) for one in asked))
    with (target / "out.jsonl").open("w") as out:
        for one, answer in zip(asked, found, strict=True):
            line = {"custom_id": one["custom_id"], "response": answer.model_dump()}
            out.write(json.dumps(line) + "\n")


asyncio.run(main())
