"""The protocol of a server whose config names none."""

from pathlib import Path

import pytest

from inferrun_runner.protocols.model_urls import protocol_in
from tests.conformance.protocol_worlds import PROTOCOLS
from tests.integration.runner.openai_server import openai_server
from tests.integration.runner.pods import Machine

pytestmark = pytest.mark.thorough

FOUND = [
    ("http://iris.models", ""),
    ("http://iris.models/v2/models/iris/infer", "v2"),
    ("http://iris.models/v1/models/iris:predict", "v1"),
    ("http://llm.models/v1/chat/completions", "openai"),
    ("http://llm.models/v1", ""),
]


@pytest.mark.parametrize(("url", "protocol"), FOUND)
def test_a_url_may_show_the_protocol(url: str, protocol: str) -> None:
    assert protocol_in(url) == protocol


@pytest.mark.parametrize("protocol", ["v1", "v2", "v2-binary"])
async def test_a_server_is_asked_for_its_protocol(file: Machine, protocol: str) -> None:
    file.write_rows([[1.0, 2.0]])
    async with PROTOCOLS[protocol]() as world:
        file.contract["kserve"] = {"modelName": "sum", "modelUrl": world.server.url}
        ended = await file.pod()
    assert ended.code == 0, ended.message
    assert world.server.received == [[[1.0, 2.0]]]


async def test_a_server_with_the_api_of_openai_is_found(tmp_path: Path) -> None:
    async with openai_server() as server:
        kserve = {"modelName": "tiny", "modelUrl": server.url}
        machine = Machine(
            tmp_path / "run", contract={"jobId": "uid", "jobName": "inf-chat", "kserve": kserve}
        )
        machine.contract["input"] = {
            "file": {"claimName": "given", "path": "batch.jsonl", "format": "openai"}
        }
        machine.contract["output"] = {
            "file": {"claimName": "made", "path": "out", "format": "openai"}
        }
        line = '{"custom_id": "a", "url": "/v1/chat/completions", "body": {"model": "x", "messages": [{"content": "hello"}]}}'
        (machine.input / "batch.jsonl").write_text(f"{line}\n")
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "1 of 1 records predicted")
    assert server.prompts == {"hello": 1}


async def test_a_server_that_cannot_be_asked_is_reported_as_by_the_default_protocol(
    file: Machine,
) -> None:
    file.write_rows([[1.0, 2.0]])
    file.contract["kserve"] = {"modelName": "sum", "modelUrl": "http://127.0.0.1:9"}
    await file.failure(4, "http://127.0.0.1:9/v2/models/sum/infer: cannot connect to 127.0.0.1:9")
