#!/usr/bin/env bash
# wreq 0.13.0: a body that is a memoryview is sent as the text of a JSON array of its bytes, without an error; bytes and bytearray are
# sent as they are.
# Output: bytes 3 b'abc'; bytearray 3 b'abc'; memoryview 10 b'[97,98,99]'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check wreq==0.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

import wreq


async def serve(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = await reader.readexactly(size)
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (size, body))
    await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    seen = {}
    for kind in (bytes, bytearray, memoryview):
        response = await wreq.Client().post(url, body=kind(b"abc"))
        seen[kind] = bytes(await response.bytes())
        print(kind.__name__, len(seen[kind]), seen[kind])
    assert seen[memoryview] == b"[97,98,99]"


asyncio.run(main())
PYTHON
