"""The program of the init container, against real HTTP servers on loopback that wake up as KServe's
do."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from inferrun.backoff import Backoff
from inferrun.contract import Model
from inferrun.runner_report import WarmUp, latest_line
from inferrun_runner.network.exchanges import Refused
from inferrun_runner.settings import Settings
from inferrun_runner.warm_up import IN_A_ROW, Seen, wait_until_ready
from tests.conformance.protocol_worlds import grpc_contents
from tests.integration.runner.pods import Ended, Machine, until
from tests.integration.runner.servers import serving
from tests.integration.runner.test_http_client import raw_server

pytestmark = pytest.mark.thorough

ALLOWED = {"allowed_addresses": "127.0.0.1"}
Answer = Callable[[int], tuple[int, str]]
"""The answer to the n-th probe, from 0."""


@asynccontextmanager
async def server(
    answer: Answer, *, tls: ssl.SSLContext | None = None, known: str = ""
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with that behaviour, on all paths or on the known one only: its URL and the paths
    that were requested."""
    paths: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        paths.append(request.path)
        status, body = answer(len(paths) - 1) if known in request.path else (404, "")
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", respond)
    async with serving(app, tls=tls) as url:
        yield url, paths


def settings() -> Settings:
    return Settings.model_validate({"limits": ALLOWED})


def waiting_for(model: Model, seen: Seen) -> asyncio.Task[None]:
    return asyncio.create_task(
        wait_until_ready(model, settings(), seen=seen, pauses=Backoff(0.01, 5))
    )


async def warm_up(url: str, *, model_name: str = "iris", **model: str) -> None:
    async with asyncio.timeout(60):
        await waiting_for(Model(model_url=url, model_name=model_name, **model), Seen())


async def test_a_model_that_is_ready_is_asked_several_times() -> None:
    async with server(lambda _: (200, "")) as (url, paths):
        await warm_up(url)
    assert paths == ["/v2/models/iris/ready"] * IN_A_ROW


async def test_answers_of_a_proxy_and_of_a_model_that_loads_are_part_of_waking_up() -> None:
    waking = [
        (503, "no healthy upstream"),
        (502, ""),
        (504, ""),
        (200, '{"ready": false}'),
        (404, ""),
    ]
    async with server(lambda at: waking[at] if at < len(waking) else (200, '{"ready": true}')) as (
        url,
        paths,
    ):
        await warm_up(url)
    assert len(paths) == len(waking) + IN_A_ROW


async def test_a_success_that_does_not_last_does_not_count() -> None:
    statuses = [200, 200, 503, 200, 200, 200]
    async with server(lambda at: (statuses[at], "")) as (url, paths):
        await warm_up(url)
    assert len(paths) == len(statuses)


ANSWERS = {
    "v1": ("/v1/models/iris", '{"name": "iris", "ready": true}'),
    "openai": ("/v1/models", '{"object": "list", "data": [{"id": "iris"}]}'),
}
"""The path that a server of a protocol knows, and what it answers there."""


@pytest.mark.parametrize("protocol", ANSWERS)
async def test_a_server_whose_protocol_no_field_names_is_asked_with_each(protocol: str) -> None:
    known, body = ANSWERS[protocol]
    async with server(lambda _: (200, body), known=known) as (url, paths):
        await warm_up(url)
    assert paths.count(known) == IN_A_ROW


async def test_a_page_for_every_path_but_that_of_the_model_is_no_answer_of_it() -> None:
    answers = [(404, ""), (200, "<p>"), (200, "<p>")] * 3 + [(200, "")] * IN_A_ROW
    async with server(lambda at: answers[at]) as (url, paths):
        await warm_up(url)
    assert len(paths) == len(answers)
    assert paths[-IN_A_ROW:] == ["/v2/models/iris/ready"] * IN_A_ROW


async def test_a_url_without_a_model_may_show_the_protocol() -> None:
    async with server(lambda _: (200, '{"data": []}')) as (url, paths):
        await warm_up(f"{url}/v1/chat/completions", model_name="")
    assert paths == ["/v1/models"] * IN_A_ROW


async def test_a_key_for_a_server_whose_protocol_no_field_names_is_not_needed() -> None:
    async with server(lambda _: (401, ""), known="/v1/") as (url, paths):
        await warm_up(url)
    assert paths == ["/v2/models/iris/ready", "/v1/models/iris"] * IN_A_ROW


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_asks_for_credentials_is_awake(status: int) -> None:
    async with server(lambda _: (status, "")) as (url, _):
        await warm_up(url)


async def test_a_server_that_is_started_by_the_first_request_is_waited_for() -> None:
    """As with a Service that has no Pods: connections are refused until something listens."""
    async with server(lambda _: (200, "")) as (url, _):
        pass  # its port is free again
    host, port = url.removeprefix("http://").split(":")
    running = asyncio.create_task(warm_up(url))
    await asyncio.sleep(0.2)
    assert not running.done()
    hits = 0

    async def respond(_: web.Request) -> web.Response:
        nonlocal hits
        hits += 1
        return web.Response()

    app = web.Application()
    app.router.add_get("/{tail:.*}", respond)
    late = web.AppRunner(app)
    await late.setup()
    await web.TCPSite(late, host, int(port), reuse_address=True).start()
    await running
    await late.cleanup()
    assert hits == IN_A_ROW


async def test_a_model_over_grpc_is_asked_whether_it_is_ready() -> None:
    async with grpc_contents() as world:
        world.server.failure = "busy"
        model = Model(
            model_url=f"grpc://{world.server.url}", model_name="sum", protocol_version="grpc-v2"
        )
        seen = Seen()
        running = waiting_for(model, seen)
        await until(lambda: seen.last.endswith("the model is not ready"))
        assert not running.done()
        world.server.failure = ""
        async with asyncio.timeout(60):
            await running
    assert seen.last == f"grpc://{world.server.url}: the model is ready"


async def test_a_grpc_server_that_is_down_is_waited_for_and_one_on_a_refused_address_is_not() -> (
    None
):
    model = Model(model_url="grpc://127.0.0.1:9", model_name="sum", protocol_version="grpc-v2")
    seen = Seen()
    running = waiting_for(model, seen)
    await until(lambda: "check that the server is running" in seen.last)
    running.cancel()
    with pytest.raises(Refused):
        await wait_until_ready(model, Settings(), seen=Seen())


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a redirect": (
        b"307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
        "status 307",
    ),
    "a huge body": (
        b"200 OK\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000,
        "more than 4194304",
    ),
    "endless headers": (b"200 OK\r\nX: " + b"x" * 5_000_000, "not valid HTTP/1.1"),
    "garbage": (b"\x00\xff\x1b[31m" * 100 + b"\r\n\r\n", "invalid"),
}
"""What a server sends after the version, and what is seen of it."""


@pytest.mark.parametrize("answer", HOSTILE)
async def test_of_whatever_a_server_answers_little_is_read_and_one_line_is_shown(
    answer: str,
) -> None:
    sent, shown = HOSTILE[answer]
    seen = Seen()
    async with raw_server(b"HTTP/1.1 " + sent) as (url, requests):
        model = Model(model_url=url, model_name="iris", protocol_version="v2")
        running = waiting_for(model, seen)
        await until(lambda: len(requests) >= 2 and bool(seen.last))
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert shown in seen.last
    assert seen.last.isprintable()


async def test_an_address_and_a_name_of_thousands_of_characters_are_reported_shortened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with server(lambda at: (503 if at < 2 else 200, "")) as (url, _):
        await warm_up(f"{url}/{'p' * 1500}", model_name="n" * 2048)
    [report, *_] = capsys.readouterr().out.splitlines()
    found = latest_line(WarmUp, report)
    assert found is not None
    assert found.seen.endswith("status 503")
    assert found.seen.startswith(f"{url}/ppp")


async def run_program(machine: Machine, url: str, *, seconds: float, **environment: str) -> Ended:
    machine.contract["kserve"] = {"modelUrl": url, "modelName": "iris"}
    return await machine.process(
        "inferrun_runner.warm_up", INFERRUN_WARM_UP_SECONDS=str(seconds), **environment
    )


async def test_the_program_ends_when_the_model_is_ready(machine: Machine) -> None:
    async with server(lambda at: (200, "") if at else (503, "")) as (url, _):
        ended = await run_program(machine, url, seconds=60)
    assert (ended.code, ended.message) == (0, "the model is ready")
    seen = latest_line(WarmUp, ended.stdout.splitlines()[0])
    assert (
        str(seen)
        == f"{url}/v2/models/iris/ready: status 503; the Pod gives up after 60 s (kserve.warmUpSeconds)"
    )


async def test_the_program_gives_up_at_its_limit_and_says_what_it_saw_last(
    machine: Machine,
) -> None:
    async with server(lambda _: (503, "")) as (url, _):
        ended = await run_program(machine, url, seconds=3)
    assert ended.code == 4
    assert ended.message == (
        "the model did not answer within 3 s; see the log of its server, or raise kserve.warmUpSeconds in the InferenceConfig; "
        f"last seen: {url}/v2/models/iris/ready: status 503"
    )


async def test_an_address_that_runs_must_not_reach_is_not_probed(machine: Machine) -> None:
    async with server(lambda _: (200, "")) as (url, paths):
        ended = await run_program(machine, url, seconds=60, INFERRUN_ALLOWED_ADDRESSES="")
    assert ended.code == 4
    assert "which runs must not reach" in ended.message
    assert paths == []
