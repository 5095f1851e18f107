"""Headers and a proxy for the model server: `kserve.headers` and `kserve.proxyUrl`, with values of
Secrets that are replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from inferrun.contract import ContractHeader, Model
from inferrun.plugins import Limits
from inferrun_runner.protocols.probe import open_probe
from tests.conformance.protocol_worlds import PROTOCOLS
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel


async def run(machine: Machine, url: str, protocol: str = "v2", **model: object) -> Ended:
    """Two records for the model."""
    machine.write_rows([[1.0, 2.0], [3.0, 4.0]])
    machine.contract["kserve"] = {
        "modelName": "sum",
        "modelUrl": url,
        "protocolVersion": protocol,
        **model,
    }
    return await machine.pod()


@pytest.mark.parametrize("name", sorted(set(PROTOCOLS) - {"lines"}))
async def test_a_header_from_a_secret_is_sent_with_every_protocol(file: Machine, name: str) -> None:
    file.endpoint("model-headers", {"0": "Custom c4nary\n"})
    async with PROTOCOLS[name]() as world:
        ended = await run(file, world.server.url, world.name, headers=[{"name": "Authorization"}])
        assert ended.code == 0, ended.message
        assert set(world.server.authorizations) == {"Custom c4nary"}


async def test_a_server_that_routes_by_host_is_reached(file: Machine, model: CountingModel) -> None:
    async def route(request: web.Request) -> web.StreamResponse | None:
        return None if request.headers["Host"] == "iris.example" else web.Response(status=404)

    model.before = route
    ended = await run(file, model.address, headers=[{"name": "Host", "value": "iris.example"}])
    assert ended.code == 0, ended.message
    assert sum(model.rows.values()) == 2


async def test_a_header_that_is_replaced_is_read_again(file: Machine, model: CountingModel) -> None:
    seen: list[str] = []

    async def renew(request: web.Request) -> web.StreamResponse | None:
        seen.append(request.headers["api-key"])
        file.endpoint("model-headers", {"1": f"k{len(seen)}"})
        return web.Response(status=503) if len(seen) == 1 else None

    model.before = renew
    file.endpoint("model-headers", {"1": "k0"})
    file.environment["INFERRUN_RETRY_SECONDS"] = "30"
    ended = await run(
        file, model.address, headers=[{"name": "X-Tenant", "value": "a"}, {"name": "api-key"}]
    )
    assert ended.code == 0, ended.message
    assert seen == ["k0", "k1"]


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([{"name": "api-key"}], "kserve.headers: api-key must be printable ASCII on one line"),
        (
            [{"name": "X-A", "value": "c4nary"}, {"name": "X-B"}],
            "kserve.headers: X-B cannot be read",
        ),
        (
            [{"name": "Transfer-Encoding", "value": "c4nary"}],
            "kserve.headers.0: the header Transfer-Encoding is set by",
        ),
        ([{"name": "X-A", "value": "c4n\nary"}], "kserve.headers: values must be printable ASCII"),
        ([{"name": "Authorization", "value": "c4nary"}], "keep one of them"),
    ],
)
async def test_headers_that_cannot_be_used_end_the_run_without_their_values(
    file: Machine, protocol: str, headers: list[object], text: str
) -> None:
    file.endpoint("model-headers", {"0": "c4nary\nc4nary"})
    file.endpoint("model", {"token": "c4nary"})
    ended = await run(file, "127.0.0.1:9", protocol, headers=headers)
    assert ended.code == 2
    assert text in ended.message
    assert "c4nary" not in ended.message


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """A proxy that forwards requests to plain servers; yields its address, the targets and the
    credentials it was given."""
    targets: list[str] = []
    given: list[str] = []

    async def forward(request: web.BaseRequest) -> web.Response:
        targets.append(str(request.url))
        given.append(request.headers.get("Proxy-Authorization", ""))
        reader, writer = await asyncio.open_connection(request.url.host, request.url.port)
        body = await request.read()
        lines = [
            f"{request.method} {request.url.path} HTTP/1.1",
            "Connection: close",
            f"Content-Length: {len(body)}",
        ]
        lines += [
            f"{name}: {request.headers[name]}"
            for name in ("Host", "Content-Type")
            if name in request.headers
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head, _, text = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return web.Response(status=int(head.split()[1]), body=text, content_type="application/json")

    server = web.Server(forward)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}", targets, given
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("is_secret", [True, False])
async def test_the_server_is_reached_through_the_proxy_only(
    file: Machine, model: CountingModel, *, is_secret: bool
) -> None:
    async with proxy() as (address, targets, given):
        if is_secret:
            file.endpoint("model", {"proxy-url": f"http://user:c4nary@{address}\n"})
            ended = await run(file, model.address)
        else:
            ended = await run(file, model.address, proxyUrl=f"http://{address}")
    assert ended.code == 0, ended.message
    assert sum(model.rows.values()) == 2
    assert targets[-1] == f"{model.url}/v2/models/sum/infer"
    assert set(given) == ({"Basic dXNlcjpjNG5hcnk="} if is_secret else {""})


async def test_an_https_server_is_reached_by_a_tunnel(file: Machine) -> None:
    asked: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode().strip())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    file.environment["INFERRUN_RETRY_SECONDS"] = "0"
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ended = await run(
            file, "https://sum.example/v2/models/sum/infer", proxyUrl=f"http://127.0.0.1:{port}"
        )
    assert ended.code == 4
    assert "the proxy returned 403" in ended.message
    assert set(asked) == {"CONNECT sum.example:443 HTTP/1.1"}


async def test_the_probe_uses_host_and_proxy_but_no_secret(
    file: Machine, model: CountingModel
) -> None:
    headers = (ContractHeader(name="Host", value="iris.example"), ContractHeader(name="api-key"))
    async with proxy() as (address, targets, _):
        found = Model(
            model_url=model.address,
            protocol_version="v2",
            headers=headers,
            proxy_url=f"http://{address}",
        )
        limits = Limits(allowed_addresses="127.0.0.1")
        async with open_probe(found, limits, endpoints=file.folder / "endpoints") as probe:
            assert (await probe()).is_ready
    assert targets == [f"{model.url}/v2/models/sum/ready"]
