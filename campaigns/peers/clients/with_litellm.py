"""litellm in a script: `acompletion` for each record, and a semaphore for those in flight.

Runs in an environment of its own.
"""

import asyncio
import json
from pathlib import Path

import litellm

from campaigns.peers.clients.arguments import given


async def main() -> None:
    """Send all requests, and write what is answered."""
    slots = asyncio.Semaphore(given.in_flight)

    async def complete(body: dict[str, object]) -> object:
        model = f"openai/{body.pop('model')}"
        async with slots:
            return await litellm.acompletion(
                model=model, api_base=f"{given.url}/v1", api_key="none", **body
            )

    with Path(given.source).open() as lines:
        asked = [json.loads(line) for line in lines]
    found = await asyncio.gather(*(complete(one["body"]) for one in asked))
    target = Path(given.target)
    target.mkdir()
    with (target / "out.jsonl").open("w") as out:
        for one, answer in zip(asked, found, strict=True):
            line = {"custom_id": one["custom_id"], "response": answer.model_dump()}
            out.write(json.dumps(line) + "\n")


asyncio.run(main())
