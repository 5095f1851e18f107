"""The protocol `http`: any JSON in, values of the response as columns."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from tests.integration.runner.openai_server import posted
from tests.integration.runner.pods import Machine

BODY = {
    "inputs": {"text": "{{ text }}", "n": "{{ n }}"},
    "options": {"lang": "{{ params.lang }}", "k": 2},
}
OUTPUTS = [
    {"name": "label", "path": "/result/0/label", "type": "string"},
    {"name": "score", "path": "/result/0/score", "type": "double"},
    {"name": "all", "path": "/result", "type": "json"},
]


class Judge:
    """Returns the number of a record as its score."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.path = ""

    async def answer(self, sent: web.Request) -> web.Response:
        body = await sent.json()
        self.received.append(body)
        self.path = sent.path_qs
        number = body["inputs"]["n"]
        if number == 3:
            return web.json_response({"error": f"cannot use {body['inputs']['text']}"}, status=422)
        if number == 4:
            return web.json_response({"result": []})
        if number == 5:
            return web.json_response({"result": [{"label": 7, "score": 0.5}]})
        return web.json_response(
            {"result": [{"label": f"l{number}", "score": number / 2}]}, status=201
        )


@pytest.fixture
async def judge() -> Judge:
    return Judge()


@pytest.fixture
async def url(judge: Judge) -> AsyncIterator[str]:
    async with posted("/{path:.*}", judge.answer) as found:
        yield found


def machine_of(folder: Path, url: str, **request: Any) -> Machine:  # Any: a field
    contract = {
        "jobId": "uid",
        "jobName": "inf-http",
        "kserve": {"modelUrl": url, "protocolVersion": "http"},
        "parameters": {"lang": "de"},
        "request": {"body": BODY, "outputs": OUTPUTS, **request},
        "input": {"file": {"claimName": "c", "path": "rows.parquet", "format": "parquet"}},
        "output": {"file": {"claimName": "c", "path": "out", "format": "jsonl"}},
    }
    machine = Machine(folder, contract=contract)
    pq.write_table(
        pa.table({"n": [1, 2, 3, 4, 5], "text": ["a", "b", "Grüße", "d", "e"]}),
        machine.input / "rows.parquet",
    )
    return machine


def lines(machine: Machine) -> list[dict[str, Any]]:  # Any: JSON
    (part,) = (machine.output / "out" / "inf-http" / "predictions").iterdir()
    return [json.loads(line) for line in part.read_text().splitlines()]


async def test_values_of_the_response_become_columns(
    tmp_path: Path, judge: Judge, url: str
) -> None:
    ended = await machine_of(tmp_path / "run", f"{url}/classify?v=1").process()
    assert ended.code == 0, ended.stderr
    assert ended.message == "2 of 5 records predicted; 3 failed, with their errors in the output"
    assert {
        "inputs": {"text": "Grüße", "n": 3},
        "options": {"lang": "de", "k": 2},
    } in judge.received
    assert judge.path == "/classify?v=1"


async def test_a_record_that_the_server_cannot_judge_costs_only_itself(
    tmp_path: Path, judge: Judge, url: str
) -> None:
    machine = machine_of(tmp_path / "run", url, path="/a/b?version=2")
    await machine.success()
    assert judge.path == "/a/b?version=2"
    found = lines(machine)
    assert found[0]["prediction"] == {
        "label": "l1",
        "score": 0.5,
        "all": [{"label": "l1", "score": 0.5}],
    }
    assert found[2]["error"]["code"] == "http_422"
    assert "Grüße" not in found[2]["error"]["message"]
    assert found[3]["error"]["message"] == "the response has no value at /result/0/label"
    assert (
        found[4]["error"]["message"] == "the prediction does not fit column 'label' of type string"
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"outputs": []}, "spec.request.outputs is not set; required with"),
        ({"prompt": "x"}, 'spec.request.prompt is "x"; not allowed with the protocol http'),
        (
            {"outputs": [{"name": "a", "path": "x", "type": "string"}]},
            'request.outputs.0.path is "x"; ',
        ),
        (
            {"outputs": [{"name": "a", "path": "/x", "type": "txt"}]},
            'request.outputs.0.type is "txt"; it is not a type',
        ),
        ({"body": {"a": "{{ b"}}, "request.body.a: line 1: "),
    ],
)
async def test_a_request_that_cannot_be_made_ends_the_run_with_its_field(
    tmp_path: Path, url: str, request_: dict[str, Any], message: str
) -> None:
    ended = await machine_of(tmp_path / "run", url, **request_).failure(2)
    assert ended.message[: len(message)] == message
