"""Nothing that the runner writes about S3 and about servers with OpenAI's API contains a record, a credential or a response."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer, openai_server
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.s3_server import S3Server, credentials, s3_server

pytestmark = pytest.mark.thorough

CANARY = "c4nary"
ECHO = f'{{"error": {{"message": "{CANARY}: cannot use {CANARY}", "code": "{CANARY}"}}}}'
PROMPT = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}


def line(**body: object) -> str:
    messages = [{"role": "user", "content": CANARY}]
    return json.dumps({**PROMPT, "body": {"model": "any", "messages": messages, **body}}) + "\n"


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with s3_server(tmp_path / "s3") as server:
        yield server


@pytest.fixture
async def llm() -> AsyncIterator[OpenAiServer]:
    async with openai_server() as server:
        server.token = f"{CANARY}-of-the-server"
        yield server


@pytest.fixture
def batch(tmp_path: Path, s3: S3Server, llm: OpenAiServer) -> Machine:
    """A run with canaries in the prompts, the token and the server's URL."""
    contract = {
        "jobId": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
        "jobName": "inf-batch-5be07ada",
        "kserve": {
            "modelUrl": llm.url.replace("http://", f"http://user:{CANARY}@") + f"/v1?key={CANARY}",
            "protocolVersion": "openai",
        },
        "input": {"s3": s3.spec("in/batch.jsonl", format="openai")},
        "output": {"s3": s3.spec("out", format="openai")},
    }
    machine = Machine(tmp_path / "run", contract=contract)
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    (machine.folder / "endpoints" / "model").mkdir()
    (machine.folder / "endpoints" / "model" / "token").write_text(llm.token)
    (s3.bucket / "in").mkdir()
    (s3.bucket / "in" / "batch.jsonl").write_text(line())
    return machine


def answer(status: int, text: str) -> Callable[[web.Request], object]:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return give


Prepare = Callable[[Machine, S3Server, OpenAiServer], None]


def bad_keys(machine: Machine, side: str) -> None:
    (machine.folder / "endpoints" / side / "secretAccessKey").write_text(CANARY)


def write(s3: S3Server, text: str) -> None:
    path = s3.bucket / "in" / "batch.jsonl"
    path.unlink()
    path.write_text(text)


def endpoint(machine: Machine, side: str, url: str) -> None:
    machine.contract[side]["s3"]["endpoint"] = url


def of_model(status: int, text: str) -> Prepare:
    return lambda _machine, _s3, llm: setattr(llm, "before", answer(status, text))


USER = f"http://user:{CANARY}@127.0.0.1:9"

FAILURES: dict[str, tuple[int, Prepare]] = {
    "model rejected": (4, of_model(400, ECHO)),
    "model failed": (4, of_model(500, ECHO)),
    "model refused": (4, of_model(401, ECHO)),
    "model not found": (4, of_model(404, ECHO)),
    "model busy": (4, of_model(503, ECHO)),
    "model broken": (4, of_model(200, f"{CANARY} is not JSON")),
    "model broken list": (4, of_model(200, f'["{CANARY}"]')),
    "model token": (4, lambda machine, _s3, _llm: wrong_token(machine)),
    "model unreachable": (4, lambda machine, _s3, _llm: machine.contract["kserve"].update(modelUrl=USER)),
    "record broken": (4, lambda _machine, s3, _llm: write(s3, f"{CANARY}\n")),
    "record path": (4, lambda _machine, s3, _llm: write(s3, line().replace("/v1/chat", f"/{CANARY}"))),
    "record stream": (4, lambda _machine, s3, _llm: write(s3, line(stream=CANARY))),
    "input user": (2, lambda machine, _s3, _llm: endpoint(machine, "input", USER)),
    "input query": (2, lambda machine, _s3, _llm: endpoint(machine, "input", f"http://127.0.0.1:9?key={CANARY}")),
    "input path": (2, lambda machine, _s3, _llm: endpoint(machine, "input", f"http://127.0.0.1:9/{CANARY}")),
    "output user": (2, lambda machine, _s3, _llm: endpoint(machine, "output", USER)),
    "input key": (3, lambda machine, _s3, _llm: bad_keys(machine, "input")),
    "output key": (5, lambda machine, _s3, _llm: bad_keys(machine, "output")),
}


def wrong_token(machine: Machine) -> None:
    (machine.folder / "endpoints" / "model" / "token").write_text(f"{CANARY}-wrong")


def all_of(ended: Ended) -> str:
    return ended.stdout + ended.stderr + ended.message


@pytest.mark.parametrize(("code", "prepare"), FAILURES.values(), ids=FAILURES)
async def test_nothing_that_the_runner_writes_contains_a_canary(
    batch: Machine, s3: S3Server, llm: OpenAiServer, code: int, prepare: Prepare
) -> None:
    prepare(batch, s3, llm)
    ended = await batch.process(INFERRUN_RETRY_SECONDS="0")
    written = all_of(ended)
    assert ended.code == code, written
    assert ended.message
    assert CANARY not in written


async def test_a_success_has_the_canary_only_in_its_output(batch: Machine, s3: S3Server) -> None:
    ended = await batch.process()
    assert ended.code == 0, all_of(ended)
    assert CANARY not in all_of(ended)
    folder = s3.bucket / "out" / "inf-batch-5be07ada"
    assert CANARY in next((folder / "predictions").iterdir()).read_text()
    assert CANARY not in (folder / "manifest.json").read_text() + (folder / "run.json").read_text()


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_what_an_s3_server_responds_is_not_shown(batch: Machine, status: int) -> None:
    async def serve(_: web.Request) -> web.StreamResponse:
        text = f"<Error><Code>{CANARY}</Code><Message>{CANARY}</Message></Error>"
        return web.Response(status=status, text=text, headers={"x-amz-request-id": CANARY})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint(batch, "input", f"http://127.0.0.1:{runner.addresses[0][1]}")
        ended = await batch.process(INFERRUN_RETRY_SECONDS="0")
    finally:
        await runner.cleanup()
    assert ended.code == 3, all_of(ended)
    assert CANARY not in all_of(ended)


async def test_a_redirect_of_the_model_server_is_not_followed_with_the_token(batch: Machine, llm: OpenAiServer) -> None:
    async with openai_server() as other:

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"{other.url}/v1/chat/completions?{CANARY}")

        llm.before = redirect
        ended = await batch.process()
        assert ended.code == 4, all_of(ended)
        assert "returned 307" in ended.message
        assert "redirects are not followed" in ended.message
        assert CANARY not in all_of(ended)
        assert not other.prompts
