"""The examples on the pages about protocols work: each is valid, and is executed with a server of
its protocol."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from inferrun_runner.registry import BUILT_IN
from inferrun_runner.registry import PROTOCOLS as PROTOCOLS_GROUP
from tests.conformance.protocol_worlds import PROTOCOLS
from tests.integration.runner.documented import valid_spec
from tests.integration.runner.openai_server import openai_server, posted
from tests.integration.runner.pods import REPOSITORY, Machine

pytestmark = pytest.mark.thorough

PAGES = REPOSITORY / "docs" / "reference" / "protocols"
ROWS = [[1.0, 2.0], [3.5, -1.0], [10.0, 20.0]]


def examples() -> dict[str, dict[str, Any]]:  # Any: YAML
    """The configs of the pages by their protocols, which are the names of the pages."""
    found: dict[str, dict[str, Any]] = {}  # Any: YAML
    for page in PAGES.iterdir():
        (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        found[page.stem] = yaml.safe_load(text)
        assert found[page.stem]["spec"]["kserve"]["protocolVersion"] == page.stem
    return found


LINES = "".join(f"{row}\n" for row in ROWS).encode()
FILES = {
    "rows.jsonl": LINES,
    "rows.jsonl.gz": gzip.compress(LINES),
    "rows.csv": ("first,second\n" + "".join(f"{a},{b}\n" for a, b in ROWS)).encode(),
}


def test_every_protocol_has_an_example() -> None:
    assert set(examples()) == {point.name for point in BUILT_IN if point.group == PROTOCOLS_GROUP}


async def test_the_documented_config_for_openai_works(tmp_path: Path) -> None:
    example = examples()["openai"]
    spec = valid_spec(example)
    async with openai_server() as server:
        server.token = "a-key"
        kserve = {"modelUrl": server.url, "protocolVersion": spec["kserve"]["protocolVersion"]}
        contract = {"jobId": "uid", "jobName": "inf-chat", "kserve": kserve, **spec["storage"]}
        machine = Machine(tmp_path / "run", contract=contract)
        (machine.folder / "endpoints" / "model").mkdir()
        (machine.folder / "endpoints" / "model" / "token").write_text(server.token)
        lines = (
            (REPOSITORY / "examples" / "llm-batch" / "batch.jsonl")
            .read_text()
            .splitlines(keepends=True)
        )
        # the tests' server has no embeddings
        chats = [line for line in lines if "/chat/completions" in line]
        (machine.input / "batch.jsonl").write_text("".join(chats))
        ended = await machine.pod(INFERRUN_CONCURRENCY=str(spec["requests"]["concurrency"]))
    assert (ended.code, ended.message) == (0, "2 of 2 records predicted")
    (part,) = (machine.output / "responses" / "inf-chat" / "predictions").iterdir()
    responses = [json.loads(line) for line in part.read_text().splitlines()]
    assert [one["custom_id"] for one in responses] == ["request-1", "request-2"]
    assert {one["response"]["status_code"] for one in responses} == {200}
    assert ended.result.usage is not None


async def test_the_documented_config_for_http_works(tmp_path: Path) -> None:
    example = examples()["http"]
    spec = valid_spec(example)

    async def classify(sent: web.Request) -> web.StreamResponse:
        body = await sent.json()
        assert body["options"] == {"lang": "de"}
        return web.json_response(
            {"result": [{"label": body["inputs"]["text"].upper(), "score": 0.5}]}
        )

    async with posted("/v1/classify", classify) as url:
        kserve = {"modelUrl": f"{url}/v1/classify", "protocolVersion": "http"}
        contract = {
            "jobId": "uid",
            "jobName": "inf-http",
            "kserve": kserve,
            "parameters": {"lang": "de"},
        }
        machine = Machine(
            tmp_path / "run", contract={**contract, "request": spec["request"], **spec["storage"]}
        )
        (machine.input / "rows.csv").write_text("text,n\na,1\nb,2\n")
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "2 of 2 records predicted")
    (part,) = (machine.output / "predictions" / "inf-http" / "predictions").iterdir()
    assert [json.loads(line)["prediction"] for line in part.read_text().splitlines()] == [
        {"label": "A", "score": 0.5},
        {"label": "B", "score": 0.5},
    ]


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2"])
async def test_a_documented_config_works(tmp_path: Path, protocol: str) -> None:
    example = examples()[protocol]
    spec = valid_spec(example)
    async with PROTOCOLS[protocol]() as world:
        kserve = {**spec["kserve"], "modelUrl": world.server.url}
        contract = {"jobId": "uid", "jobName": "inf-example", "kserve": kserve, **spec["storage"]}
        machine = Machine(tmp_path / "run", contract=contract)
        name = spec["storage"]["input"]["file"]["path"]
        (machine.input / name).write_bytes(FILES[name])
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "3 of 3 records predicted")
    (part,) = (machine.output / "predictions" / "inf-example" / "predictions").iterdir()
    assert [yaml.safe_load(line)["prediction"] for line in part.read_text().splitlines()] == [
        3.0,
        2.5,
        30.0,
    ]
    assert list((machine.folder / "tmp").iterdir()) == []
