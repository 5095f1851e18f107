#!/usr/bin/env bash
# pyreqwest 0.15.1: a request whose asyncio task is cancelled goes on: its connection stays open, also when the client is closed, so the
# server computes an answer that nobody reads. And a time limit that ends after the server has received the request is a
# ConnectTimeoutError, so who repeats only what cannot have been sent sends it twice.
# Output: cancelled: the server's connection is open after 2 s; after 0.3 s: ConnectTimeoutError, requests received 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyreqwest==0.15.1
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
from contextlib import suppress
from datetime import timedelta

from pyreqwest.client import ClientBuilder

received, ended = [], asyncio.Event()


async def serve(reader, writer):
    received.append(await reader.readuntil(b"\r\n\r\n"))
    with suppress(asyncio.CancelledError):
        while await reader.read(1024):
            pass
        ended.set()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with ClientBuilder().build() as client:
        task = asyncio.create_task(client.post(url).build().send())
        while not received:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    try:
        await asyncio.wait_for(ended.wait(), 2)
        raise SystemExit("fixed")
    except TimeoutError:
        print("cancelled: the server's connection is open after 2 s")
    received.clear()
    try:
        await ClientBuilder().timeout(timedelta(seconds=0.3)).build().post(url).build().send()
    except Exception as error:
        print(f"after 0.3 s: {type(error).__name__}, requests received {len(received)}")
        assert type(error).__name__ == "ConnectTimeoutError" and received


asyncio.run(main())
PYTHON
