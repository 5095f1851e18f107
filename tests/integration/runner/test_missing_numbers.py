"""NaN, Infinity and null in the answers of servers where a number should be: an error of their
record, whatever the protocol.

Python's `json` writes NaN by default, so many servers do. Statuses that concern no record are here,
too.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import serving

BAD = float("nan")
VALUES = {3: BAD, 5: float("inf"), 7: float("-inf"), 8: None}
"""What a server returns for some numbers; for others, half of them."""

ROWS = [{"n": number, "text": str(number)} for number in range(10)]
MEDIA = "application/json"
Answer = Callable[[list[int]], Any]  # Any: JSON


def value_of(number: int) -> float | None:
    return VALUES.get(number, number / 2)


@asynccontextmanager
async def answering(respond: Callable[[web.Request, Any], Any]) -> AsyncIterator[str]:
    """Serve JSON as Python's `json` writes it. What is posted is decoded; a tuple has a status."""

    async def answer(request: web.Request) -> web.Response:
        sent = await request.read()
        found = respond(request, json.loads(sent) if sent else None)
        status, value = found if isinstance(found, tuple) else (200, found)
        return web.Response(status=status, text=json.dumps(value), content_type=MEDIA)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app) as url:
        yield url


# Any: fields
def machine_of(
    folder: Path, url: str, protocol: str, *, form: str = "jsonl", **more: Any
) -> Machine:
    kserve = {"modelUrl": url, "modelName": "m", "protocolVersion": protocol}
    contract = {
        "jobId": "uid",
        "jobName": "inf-numbers",
        "kserve": kserve,
        "input": {"file": {"claimName": "c", "path": "rows.jsonl"}},
        "output": {"file": {"claimName": "c", "path": "out", "format": form}},
        **more,
    }
    machine = Machine(folder, contract=contract)
    machine.write_rows(ROWS if "request" in more else [[row["n"]] for row in ROWS], "rows.jsonl")
    return machine


def v1(request: web.Request, body: Any) -> Any:  # Any: JSON
    return {"predictions": [value_of(row[0]) for row in body["instances"]]} if body else (404, {})


def v2(request: web.Request, body: Any) -> Any:  # Any: JSON
    if not body:
        return 404, {}
    data = [value_of(int(number)) for number in body["inputs"][0]["data"]]
    return {"outputs": [{"name": "y", "datatype": "FP32", "shape": [len(data)], "data": data}]}


def http(request: web.Request, body: Any) -> Any:  # Any: JSON
    return {"y": value_of(body["n"]), "list": [0.5, value_of(body["n"])], "other": BAD}


def embeddings(request: web.Request, body: Any) -> Any:  # Any: JSON
    numbers = [int(text) for text in body["input"]] if body else []
    return {
        "data": [{"index": at, "embedding": [1.0, value_of(one)]} for at, one in enumerate(numbers)]
    }


def scores(request: web.Request, body: Any) -> Any:  # Any: JSON
    return (
        {"data": [{"index": 0, "score": value_of(int(body["text_2"]))}]} if body else {"data": []}
    )


ONE = [{"name": "y", "path": "/y", "type": "double"}]
MANY = [{"name": "y", "path": "/list", "type": "list<double>"}]
BODY = {"n": "{{ n }}"}
WAYS: dict[str, tuple[str, Any, dict[str, Any]]] = {  # Any: fields
    "v1": ("v1", v1, {}),
    "v2": ("v2", v2, {}),
    "http": ("http", http, {"request": {"body": BODY, "outputs": ONE}}),
    "http, in a list": ("http", http, {"request": {"body": BODY, "outputs": MANY}}),
    "embeddings": ("openai", embeddings, {"request": {"task": "Embedding", "prompt": "{{ n }}"}}),
    "scores": (
        "openai",
        scores,
        {"request": {"task": "Score", "prompt": "q", "documentsColumn": "text"}},
    ),
}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_not_a_number_is_an_error_of_its_record(
    tmp_path: Path, way: str, form: str
) -> None:
    protocol, respond, more = WAYS[way]
    async with answering(respond) as url:
        machine = machine_of(tmp_path / "run", url, protocol, form=form, **more)
        ended = await machine.pod()
    assert (ended.code, ended.message) == (
        0,
        "6 of 10 records predicted; 4 failed, with their errors in the output",
    )
    if form == "jsonl":
        errors = {
            one["index"]: one["error"]["message"] for one in machine.results if "error" in one
        }
    else:
        (path,) = (machine.run_folder / "predictions").glob("*.parquet")
        found = pq.read_table(path).to_pylist()
        errors = {one["index"]: one["error"]["message"] for one in found if one["error"]}
    assert set(errors) == set(VALUES)
    for at, shown in {3: "nan", 5: "inf", 7: "-inf", 8: "null"}.items():
        assert f"returned {shown}" in errors[at], errors


async def test_a_response_with_nan_is_no_result_of_a_batch_file(tmp_path: Path) -> None:
    def respond(request: web.Request, body: Any) -> Any:  # Any: JSON
        if not body:
            return {"data": []}
        return {
            "object": "list",
            "data": [{"index": 0, "embedding": [1.5, value_of(int(body["input"]))]}],
        }

    async with answering(respond) as url:
        machine = machine_of(tmp_path / "run", url, "openai")
        machine.contract["input"]["file"]["format"] = machine.contract["output"]["file"][
            "format"
        ] = "openai"
        lines = [
            {
                "custom_id": f"r{n}",
                "method": "POST",
                "url": "/v1/embeddings",
                "body": {"input": str(n)},
            }
            for n in range(10)
        ]
        machine.write_rows(lines, "rows.jsonl")
        ended = await machine.pod()
    assert ended.message == "7 of 10 records predicted; 3 failed, with their errors in the output"
    failed = {one["custom_id"] for one in machine.errors}
    assert failed == {"r3", "r5", "r7"}  # null is the server's own answer, which is stored as it is


@pytest.mark.parametrize("task", ["Chat", "Completion"])
async def test_a_run_whose_answers_are_all_null_does_not_succeed(tmp_path: Path, task: str) -> None:
    def respond(request: web.Request, body: Any) -> Any:  # Any: JSON
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": None},
            "text": None,
        }
        return {"choices": [choice]} if body else {"data": []}

    async with answering(respond) as url:
        machine = machine_of(
            tmp_path / "run", url, "openai", request={"task": task, "prompt": "{{ n }}"}
        )
        ended = await machine.pod()
    assert (ended.code, ended.result.reason) == (4, "InferenceFailed")
    assert (
        "all 10 records failed: the answer has no text: it is empty, with finish_reason stop"
        in ended.message
    )


async def test_a_completion_without_a_text_is_an_invalid_response(tmp_path: Path) -> None:
    def respond(request: web.Request, body: Any) -> Any:  # Any: JSON
        return {"choices": [{"index": 0, "finish_reason": "stop"}]} if body else {"data": []}

    async with answering(respond) as url:
        machine = machine_of(
            tmp_path / "run", url, "openai", request={"task": "Completion", "prompt": "{{ n }}"}
        )
        ended = await machine.pod()
    assert ended.code == 4
    assert "its choice has no text" in ended.message


@pytest.mark.parametrize("status", [401, 403, 302, 520, 522, 524, 529])
@pytest.mark.parametrize("protocol", ["openai", "http", "v1", "v2"])
async def test_one_refusal_after_answers_fails_no_record(
    tmp_path: Path, protocol: str, status: int
) -> None:
    counts = Counter[str]()

    def respond(request: web.Request, body: Any) -> Any:  # Any: JSON
        if body is None:
            return {"data": []} if protocol == "openai" else (404, {})
        counts["requests"] += 1
        if counts["requests"] == 4:
            return status, {"error": {"message": "upstream"}}
        if protocol == "openai":
            return {"choices": [{"finish_reason": "stop", "message": {"content": "a"}}]}
        if protocol == "v2":
            return {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [0.5]}]}
        return {"y": 0.5, "predictions": [0.5]}

    # Any: fields
    requests: dict[str, Any] = {
        "openai": {"prompt": "{{ n }}"},
        "http": {"body": BODY, "outputs": ONE},
    }
    more = {"request": requests[protocol]} if protocol in requests else {}
    async with answering(respond) as url:
        machine = machine_of(tmp_path / "run", url, protocol, **more)
        ended = await machine.pod(
            INFERRUN_RETRY_SECONDS="20", INFERRUN_BATCH_ROWS="1", INFERRUN_CONCURRENCY="1"
        )
    assert (ended.code, ended.message) == (0, "10 of 10 records predicted")


@pytest.mark.parametrize("protocol", ["openai", "v2"])
async def test_missing_credentials_end_a_run_at_once(tmp_path: Path, protocol: str) -> None:
    async with answering(lambda _, body: (401, {}) if body else (404, {})) as url:
        # Any: fields
        more: dict[str, Any] = {"request": {"prompt": "{{ n }}"}} if protocol == "openai" else {}
        machine = machine_of(tmp_path / "run", url, protocol, **more)
        ended = await machine.pod(INFERRUN_RETRY_SECONDS="20")
    assert (ended.code, ended.message.count("returned 401")) == (4, 1)
