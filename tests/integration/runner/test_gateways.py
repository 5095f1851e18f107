"""Gateways in front of model servers: what they answer while the model is away is not the fault of
a record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import Away

COUNT = 300
SETTINGS = {
    "INFERRUN_CONCURRENCY": "8",
    "INFERRUN_RETRY_SECONDS": "10",
    "INFERRUN_CHUNK_BYTES": "1024",
}
SMG = {"error": {"code": "model_not_found", "message": "No worker available for model 'tiny'"}}


@pytest.fixture
def machine(tmp_path: Path, llm: OpenAiServer) -> Machine:
    contract = {
        "jobId": "uid",
        "jobName": "inf-prompts",
        "kserve": {"modelUrl": llm.url, "modelName": "tiny", "protocolVersion": "openai"},
        "request": {"prompt": "{{ q }}"},
        "input": {"file": {"claimName": "data", "path": "rows.jsonl"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    }
    machine = Machine(tmp_path / "run", contract=contract)
    rows = [{"q": f"prompt {index}"} for index in range(COUNT)]
    (machine.input / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return machine


def smg() -> web.Response:
    return web.json_response(SMG, status=404)


def without_body(status: int) -> Callable[[], web.Response]:
    return lambda: web.Response(status=status)


@pytest.mark.parametrize(
    "answer",
    [smg, *map(without_body, [404, 405, 410, 421, 451, 401, 403])],
    ids=[
        "404 of smg 1.13.0",
        "404 of NVIDIA Dynamo 1.6.1",
        "405",
        "410",
        "421",
        "451",
        "401",
        "403",
    ],
)
async def test_a_model_that_is_away_for_a_moment_costs_no_record(
    machine: Machine, llm: OpenAiServer, answer: Callable[[], web.Response]
) -> None:
    llm.before = away = Away(answer, is_due=lambda: llm.prompts.total() >= 100, left=60)
    await machine.success(f"{COUNT} of {COUNT} records predicted", **SETTINGS)
    assert not away.left


async def test_before_any_answer_a_model_that_is_not_served_fails_no_record(
    machine: Machine, llm: OpenAiServer
) -> None:
    async def reject(_: web.Request) -> web.Response:
        return smg()

    llm.before = reject
    ended = await machine.failure(4, **SETTINGS | {"INFERRUN_RETRY_SECONDS": "1"})
    assert ended.message.endswith(
        "/v1/chat/completions returned 404: model_not_found: No worker available for model 'tiny'; "
        "check that model 'tiny' is served"
    )
    assert not list(machine.output.rglob("errors/*"))


async def test_a_record_for_which_alone_a_gateway_answers_like_this_fails(
    machine: Machine, llm: OpenAiServer
) -> None:
    """A filter in front of the server may deny what one prompt says."""

    async def deny(request: web.Request) -> web.Response | None:
        body: Any = json.loads(await request.read())
        return web.Response(status=403) if body["messages"][-1]["content"] == "prompt 7" else None

    llm.before = deny
    await machine.success(**SETTINGS)
    assert [(one["index"], one["error"]["code"]) for one in machine.errors] == [(7, "http_403")]
