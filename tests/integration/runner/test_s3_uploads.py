"""Large files of results on their way to a bucket, when the process is killed."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from inferrun.plugins.limits import MIB
from tests.integration.runner.distant_server import at_a_distance
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.servers import passed_on

RECORDS = 120
JOINED = re.compile(rb"(?:PUT|POST) \S+/predictions/part-\d{6}-\d{12}-\d{6}-")


@asynccontextmanager
async def stalling(server: str, stalled: asyncio.Event, *, after: int) -> AsyncIterator[str]:
    """Forward connections to a server until so many bytes of joined files were sent."""
    target = urlsplit(server)
    sent = 0

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        from_server, to_server = await asyncio.open_connection(target.hostname, target.port)
        back = asyncio.create_task(passed_on(from_server, writer))
        is_upload = False
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                is_upload = is_upload or JOINED.match(data) is not None
                sent += is_upload * len(data)
                if sent > after:
                    stalled.set()
                if not stalled.is_set():
                    to_server.write(data)
                    await to_server.drain()
        to_server.close()
        await back

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


def write_rows(machine: Machine) -> None:
    lines = (
        json.dumps({"custom_id": f"{number}{'x' * 100_000}", "inputs": [number, 1]})
        for number in range(RECORDS)
    )
    (machine.input / "data" / "rows.jsonl").write_text("\n".join(lines))
    credentials(machine.folder / "endpoints" / "output")


async def test_each_request_says_who_pays_and_each_object_is_encrypted_with_the_key(
    file: Machine, tmp_path: Path
) -> None:
    payers, keys = list[str | None](), list[str | None]()

    def admit(request: web.Request) -> Mapping[str, str]:
        payers.append(request.headers.get("x-amz-request-payer"))
        if (
            request.method == "PUT" and "partNumber" not in request.query
        ) or "uploads" in request.query:
            keys.append(request.headers.get("x-amz-server-side-encryption-aws-kms-key-id"))
        return request.headers

    write_rows(file)
    async with (
        s3_server(tmp_path / "s3") as server,
        at_a_distance(server.url, seconds=0, admit=admit) as proxy,
    ):
        spec = replace(server, url=proxy.url).spec("out", requesterPays=True, kmsKeyId="batch-key")
        file.contract["output"] = {"s3": spec}
        ended = await file.pod()
    assert (ended.code, ended.message) == (0, f"{RECORDS} of {RECORDS} records predicted")
    assert set(payers) == {"requester"}
    assert set(keys) == {"batch-key"}


async def test_a_process_killed_during_a_large_upload_leaves_nothing_behind(
    file: Machine, tmp_path: Path
) -> None:
    write_rows(file)
    stalled = asyncio.Event()
    async with s3_server(tmp_path / "s3") as server:
        async with stalling(server.url, stalled, after=8 * MIB) as proxy:
            file.contract["output"] = {"s3": {**server.spec("out"), "endpoint": proxy}}
            pod = await file.start()
            await asyncio.wait_for(stalled.wait(), 60)
            pod.signal(signal.SIGKILL)
            assert (await pod.end()).code == -signal.SIGKILL
        file.contract["output"] = {"s3": server.spec("out")}
        await file.success(f"{RECORDS} of {RECORDS} records predicted")
        (part,) = (server.bucket / "out").rglob("part-*")
        assert part.stat().st_size > 10 * MIB
        assert list((server.bucket / ".sgwtmp" / "multipart").glob("*/*")) == [], (
            "uploads that are not complete"
        )
