"""`python -m tests.foreign.recorder <file> <url>`: asks a real server through a proxy that writes
down what it answers.

Standard input has the contract, the records and what is expected. The protocol of the contract
asks, as a run would: its checks before the first record, the warm-up, and each run of consecutive
records in one request, so that a run that divides a batch in any way finds all answers. Each is
sent once; what the product makes of the answers is tested later, when they are played back.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web

from inferrun.contract import Contract
from inferrun.plugins import Batch, Fault, JsonRecords, MixedBatch, ModelContext, RunnerError
from inferrun_runner.protocols.model_urls import description_url
from inferrun_runner.protocols.probe import open_probe, with_protocol
from inferrun_runner.protocols.protocol_name import V2, named_protocol
from inferrun_runner.registry import Registry
from inferrun_runner.settings import read_settings
from tests.foreign.answers import KEPT, Exchange, Recording, served, shown

_OF_A_HOP = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}


async def main(path: Path, url: str) -> None:
    """Ask, and write the file."""
    given = json.load(sys.stdin)
    parts = urlsplit(url)
    exchanges = list[Exchange]()
    # uvicorn closes a connection after an exception, while the next request may be on its way.
    connector = aiohttp.TCPConnector(force_close=True)
    session = aiohttp.ClientSession(
        connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=300)
    )

    async def forward(request: web.Request) -> web.Response:
        sent = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in _OF_A_HOP
        }
        target = f"{parts.scheme}://{parts.netloc}{request.raw_path}"
        async with session.request(
            request.method, target, data=sent, headers=headers, allow_redirects=False
        ) as response:
            body = await response.read()
            kept = {name: response.headers[name] for name in KEPT if name in response.headers}
        exchanges.append(
            Exchange(
                request.method, request.path_qs, shown(sent), response.status, kept, shown(body)
            )
        )
        return web.Response(status=response.status, headers=kept, body=body)

    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{path:.*}", forward)
    async with session, served(app) as proxy:
        await _ask(
            {
                **given["contract"],
                "kserve": {**given["contract"]["kserve"], "modelUrl": proxy + parts.path},
            },
            given["rows"],
        )
    Recording(**given, url_path=parts.path, exchanges=exchanges).write(path)


async def _ask(contract: dict[str, object], rows: list[object]) -> None:
    """Send every request that a run of these records may send."""
    parsed = Contract.model_validate_json(
        json.dumps({"jobId": "r", "jobName": "r", "input": {}, "output": {}, **contract})
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = read_settings(
            {
                "INFERRUN_ALLOWED_ADDRESSES": "127.0.0.0/8",
                "INFERRUN_RETRY_SECONDS": "0",
                "INFERRUN_ENDPOINTS_DIR": folder,
            }
        )
        context = ModelContext(
            limits=settings.limits,
            credentials_dir=settings.endpoints_dir / "model",
            contract=parsed,
        )
        described = await with_protocol(parsed.kserve, context)
        async with open_probe(
            described, settings.limits, endpoints=settings.endpoints_dir
        ) as probe:
            await probe()
        name, field = named_protocol(described)
        if name == V2:  # Triton's description of what it does with batches and optional inputs
            async with aiohttp.ClientSession() as session:
                await session.get(
                    f"{description_url(V2, described.model_url, described.model_name)}/config"
                )
        async with Registry().model_protocol(name, field=field)(described, context) as model:
            try:
                await model.prepare()
            except (Fault, RunnerError) as error:
                _say(f"the checks before the first record: {error}")
            most = model.max_records or len(rows)
            for size in range(1, min(most, len(rows)) + 1):
                for first in range(len(rows) - size + 1):
                    records = JsonRecords([orjson.dumps(row) for row in rows[first : first + size]])
                    try:
                        await model.predict(Batch(first=first, records=records))
                    except (Fault, RunnerError, MixedBatch) as error:
                        _say(f"records {first} to {first + size - 1}: {error}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
