"""The input store `http` with servers that fail, change the file or lead elsewhere."""

import asyncio
import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from inferrun.plugins import InputError
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, nothing
from tests.integration.runner.web_server import Requests, web_server

ROWS = b"".join(b"[%d.0]\n" % number for number in range(1000, 1300))


@pytest.fixture
def machine(tmp_path: Path, model: CountingModel) -> Machine:
    """A run from a web server to files."""
    contract = {
        "jobId": "uid",
        "jobName": "inf-web",
        "kserve": {"modelName": "sum", "modelUrl": model.address, "modelInputName": "input-0"},
        "output": {"file": {"claimName": "claim", "path": "out"}},
    }
    return Machine(tmp_path / "run", contract=contract)


async def refuse(_: web.Request) -> web.Response:
    return web.Response(status=401)


def read_from(machine: Machine, url: str, **more: object) -> None:
    machine.contract["input"] = {"http": {"url": url, **more}}


@pytest.mark.parametrize("has_ranges", [True, False])
async def test_a_file_is_predicted_although_the_server_fails_first(
    machine: Machine,
    has_ranges: bool,  # noqa: FBT001
) -> None:
    requests = Requests(failures=[503, 429])
    async with web_server({"body": ROWS}, has_ranges=has_ranges, requests=requests) as address:
        read_from(machine, f"{address}/rows.jsonl")
        ended = await machine.pod(INFERRUN_RETRY_SECONDS="60")
    assert (ended.code, ended.message) == (0, "300 of 300 records predicted")
    assert list((machine.folder / "tmp").iterdir()) == []


async def test_credentials_and_a_signed_url_come_from_the_secret(machine: Machine) -> None:
    requests = Requests()
    async with web_server({"body": ROWS}, has_ranges=True, requests=requests) as address:
        machine.endpoint(
            "input", {"token": "t0ken", "url": f"{address}/rows.jsonl?signature=s1gned"}
        )
        machine.contract["input"] = {"http": {"credentialsRef": {"name": "web"}}}
        ended = await machine.pod()
    assert ended.code == 0, ended.message
    assert {headers["Authorization"] for headers in requests.headers} == {"Bearer t0ken"}
    stored = [path.read_bytes() for path in machine.output.rglob("*") if path.is_file()]
    assert not any(
        b"s1gned" in content or b"t0ken" in content for content in [*stored, ended.stdout.encode()]
    )


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "returned 404; check input.http.url"),
        (403, "returned 403; check input.http.credentialsRef"),
        (
            302,
            "returned 302 and redirects to http://login.example/sign-in; redirects are not followed",
        ),
    ],
)
async def test_a_final_answer_is_reported_at_once(machine: Machine, status: int, text: str) -> None:
    requests = Requests(failures=[status])
    async with web_server({"body": ROWS}, has_ranges=True, requests=requests) as address:
        read_from(machine, f"{address}/rows.jsonl?key=s1gned")
        ended = await machine.pod()
    assert ended.code == 3
    assert text in ended.message
    assert "s1gned" not in ended.message
    assert not ended.result.retryable
    assert len(requests.headers) == 1


async def test_a_file_that_changes_between_two_pods_is_rejected(
    machine: Machine, model: CountingModel
) -> None:
    served = {"body": ROWS}
    async with web_server(served, has_ranges=True) as address:
        read_from(machine, f"{address}/rows.jsonl")
        model.before = refuse
        await machine.failure(4)
        model.before = nothing
        served["body"] = ROWS[:-1] + b" \n"
        ended = await machine.pod()
    assert ended.code == 3
    assert "the input differs" in ended.message


async def test_a_refused_address_is_not_asked(machine: Machine) -> None:
    requests = Requests()
    async with web_server({"body": ROWS}, has_ranges=True, requests=requests) as address:
        read_from(machine, f"{address}/rows.jsonl")
        machine.contract["kserve"]["modelUrl"] = "http://192.0.2.1"
        ended = await machine.pod(INFERRUN_ALLOWED_ADDRESSES="192.0.2.1")
    assert ended.code == 3
    assert "which runs must not reach" in ended.message
    assert requests.headers == []


async def test_a_truncated_file_is_not_taken_for_the_whole(machine: Machine) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + ROWS[:100])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        read_from(machine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rows.jsonl")
        ended = await machine.pod(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == InputError.code
    assert "the response was truncated" in ended.message


async def test_an_encoding_may_be_in_several_header_lines(
    machine: Machine, model: CountingModel
) -> None:
    """They are one list (RFC 9110, 5.3)."""
    body = gzip.compress(ROWS)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head % len(body) + body)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        read_from(machine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rows.jsonl")
        ended = await machine.pod()
    assert ended.code == 0, ended.message


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (
            b'206 Partial\r\nContent-Range: bytes 0-0/100\r\nETag: "a"\r\nTransfer-Encoding: chunked',
            "206",
        ),
        (
            b"206 Partial\r\nContent-Range: bytes 0-0/"
            + b"9" * 5000
            + b'\r\nETag: "a"\r\nContent-Length: 1',
            "206",
        ),
        (
            b"200 OK\r\nContent-Encoding: <script>\x1b[31m\r\nContent-Length: 1",
            "is stored with Content-Encoding",
        ),
        (
            b"503 Busy\r\nRetry-After: Mon, 01 Jan 99999999999 00:00:00 GMT\r\nContent-Length: 0",
            "503",
        ),
        (b"503 Busy\r\nRetry-After: " + b"9" * 5000 + b"\r\nContent-Length: 0", "503"),
    ],
    ids=["endless range", "size", "encoding", "date", "seconds"],
)
async def test_what_a_hostile_server_says_is_bounded_and_reported(
    machine: Machine, head: bytes, text: str
) -> None:
    """The body is endless if it is chunked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            is_range = head.startswith(b"206")
            writer.write(
                b"HTTP/1.1 "
                + head
                + b"\r\n\r\n"
                + (b"" if b"chunked" in head or b": 0" in head else b"x")
            )
            while b"chunked" in head and is_range:
                writer.write(b"10000\r\n" + b"[1]\n" * 16384 + b"\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        read_from(machine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rows.jsonl")
        ended = await machine.pod(INFERRUN_RETRY_SECONDS="0", INFERRUN_SPOOL_BYTES="1048576")
    assert ended.code == InputError.code, ended.stdout
    assert text in ended.message
    assert "script" not in ended.message
