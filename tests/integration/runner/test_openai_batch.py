"""An unmodified input file of OpenAI's Batch API, from S3, against a server with OpenAI's API, to
S3."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer, batch_machine, llama_server
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, s3_server

COUNT = 300
SMALL = {"INFERRUN_CHUNK_BYTES": "4096", "INFERRUN_CONCURRENCY": "8"}


# Any: JSON
def request(custom_id: str, prompt: str, *, url: str = "/v1/chat/completions") -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 4}
    if url == "/v1/embeddings":
        body = {"model": "tiny", "input": prompt}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def batch_file(count: int = COUNT) -> str:
    return "".join(
        json.dumps(request(f"request-{index}", f"prompt {index}")) + "\n" for index in range(count)
    )


def machine_of(folder: Path, s3: S3Server, url: str) -> Machine:
    machine = batch_machine(folder, s3, url)
    (s3.bucket / "in" / "batch.jsonl").write_text(batch_file())
    return machine


@pytest.fixture
def machine(tmp_path: Path, s3: S3Server, llm: OpenAiServer) -> Machine:
    return machine_of(tmp_path / "run", s3, llm.url)


def objects(s3: S3Server, folder: str) -> list[dict[str, Any]]:  # Any: JSON
    """The lines of all objects of a folder of the run, in order."""
    paths = sorted((s3.bucket / "out" / "inf-batch-5be07ada" / folder).glob("*"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


async def test_each_request_has_a_response_with_its_custom_id(
    machine: Machine, s3: S3Server, llm: OpenAiServer
) -> None:
    ended = await machine.process(**SMALL, INFERRUN_PROGRESS_SECONDS="0")
    assert (ended.code, ended.message) == (0, "300 of 300 records predicted"), ended.stderr
    lines = objects(s3, "predictions")
    assert [line["custom_id"] for line in lines] == [f"request-{index}" for index in range(COUNT)]
    assert lines[7]["response"]["status_code"] == 200
    assert lines[7]["response"]["request_id"] == "req-prompt 7"
    assert lines[7]["response"]["body"]["choices"][0]["message"]["content"] == "prompt 7"
    assert lines[7]["error"] is None
    assert len({line["id"] for line in lines}) == COUNT
    assert set(llm.prompts.values()) == {1}
    assert set(llm.models) == {"tiny"}
    assert ended.result.usage is not None
    assert ended.result.usage.total_tokens == 5 * COUNT
    assert ended.result.delivery == "ExactlyOnce"
    tokens = [
        json.loads(line).get("usage", {}).get("totalTokens", 0)
        for line in ended.stdout.splitlines()
    ]
    assert tokens == sorted(tokens)
    assert tokens[0] < tokens[-2] <= tokens[-1] == 5 * COUNT, "they are known while the run runs"
    manifest = json.loads((s3.bucket / "out" / "inf-batch-5be07ada" / "manifest.json").read_text())
    assert manifest["usage"] == {"promptTokens": 900, "completionTokens": 600, "totalTokens": 1500}
    assert manifest["records"] == {"total": 300, "completed": 300, "failed": 0}


async def test_failed_requests_are_in_the_error_file(machine: Machine, s3: S3Server) -> None:
    lines = [
        request("good", "x"),
        request("rejected", "bad"),
        request("wrong url", "x", url="/v1/files"),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "not JSON\n"
    (s3.bucket / "in" / "batch.jsonl").write_text(text)
    await machine.success(
        "1 of 4 records predicted; 3 failed, with their errors in the output", **SMALL
    )
    assert [line["custom_id"] for line in objects(s3, "predictions")] == ["good"]
    rejected, wrong, invalid = objects(s3, "errors")
    assert (rejected["custom_id"], rejected["response"]["status_code"], rejected["error"]) == (
        "rejected",
        400,
        None,
    )
    assert rejected["response"]["body"]["error"]["message"] == "bad prompt"
    assert (wrong["custom_id"], wrong["response"]) == ("wrong url", None)
    assert wrong["error"]["message"].startswith("url must be one of /v1/chat/completions")
    assert (invalid["custom_id"], invalid["error"]["code"]) == (None, "invalid_input")
    assert [line["inferrun"] for line in (wrong, invalid)] == [
        {"index": 2, **wrong["error"], "attempts": 0},
        {"index": 3, **invalid["error"], "attempts": 0},
    ]
    about = rejected["inferrun"]
    assert (about["index"], about["code"], about["attempts"]) == (1, "http_400", 1)
    assert about["message"].endswith("returned 400: bad prompt")
    assert "inferrun" not in objects(s3, "predictions")[0]


async def test_a_request_and_its_response_pass_through_byte_for_byte(
    machine: Machine, s3: S3Server, llm: OpenAiServer
) -> None:
    odd = b'123456789012345678901234567890, 1e400, "\\ud83d", "\\u00fc", 1.0'
    body = b'{"model": "tiny", "messages": [{"content": "x"}], "odd": [%b]}' % odd
    line = (
        b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": %b}\n' % body
    )
    (s3.bucket / "in" / "batch.jsonl").write_bytes(line)
    received: list[bytes] = []

    async def answer(sent: web.Request) -> web.StreamResponse | None:
        received.append(await sent.read())
        return web.Response(body=b'{"choices": [\n%b]}\n' % odd)

    llm.before = answer
    await machine.success("1 of 1 records predicted", **SMALL)
    assert received == [body]
    (part,) = (s3.bucket / "out" / "inf-batch-5be07ada" / "predictions").glob("*")
    assert b'"custom_id":"a"' in part.read_bytes()
    assert b'"body":{"choices": [%b]}}' % odd in part.read_bytes()


NO_JSON = (
    b"",
    b"<html>",
    b"[]",
    b'{"data": [{"embedding": [NaN]}]}',
    b'{"choices": "\xff"}',
    b'{"choices": [',
    b"{" * 2000,
)


@pytest.mark.parametrize("body", NO_JSON)
async def test_a_response_that_is_no_json_object_costs_one_record(
    machine: Machine, s3: S3Server, llm: OpenAiServer, body: bytes
) -> None:
    lines = [request(prompt, prompt) for prompt in ("first", "odd", "last")]
    (s3.bucket / "in" / "batch.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )

    async def answer(sent: web.Request) -> web.StreamResponse | None:
        return web.Response(body=body) if b"odd" in await sent.read() else None

    llm.before = answer
    await machine.success(
        "2 of 3 records predicted; 1 failed, with their errors in the output", **SMALL
    )
    assert [line["custom_id"] for line in objects(s3, "predictions")] == ["first", "last"]
    (error,) = objects(s3, "errors")
    assert (error["custom_id"], error["response"], error["error"]["code"]) == (
        "odd",
        None,
        "invalid_response",
    )


async def test_the_key_is_sent_and_a_wrong_one_is_reported(
    machine: Machine, llm: OpenAiServer
) -> None:
    llm.token = "right"
    await machine.failure(
        4, "returned 401 with ", "name a Secret that has them with kserve.credentialsRef", **SMALL
    )
    machine.endpoint("model", {"token": "right\n"})
    await machine.success(**SMALL)


async def test_a_server_that_rejects_every_request_ends_the_run_with_its_reason(
    machine: Machine, llm: OpenAiServer
) -> None:
    async def reject(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "messages: a list is required"}}, status=400)

    llm.before = reject
    ended = await machine.failure(4, **SMALL)
    assert ended.message.startswith("all 300 records failed: ")
    assert "/v1/chat/completions returned 400: messages: a list is required" in ended.message


async def test_a_model_that_is_not_served_fails_only_the_requests_that_name_it(
    machine: Machine, s3: S3Server, llm: OpenAiServer
) -> None:
    given = [json.loads(line) for line in batch_file().splitlines()]
    other = {0, 1, 2, 17, 150, 299}
    for index in other:
        given[index]["body"]["model"] = "huge"
    (s3.bucket / "in" / "batch.jsonl").write_text("".join(json.dumps(one) + "\n" for one in given))
    machine.contract["kserve"].pop("modelName", None)

    async def reject(sent: web.Request) -> web.StreamResponse | None:
        if json.loads(await sent.read())["model"] == "tiny":
            return None
        return web.json_response({"error": {"message": "The model does not exist"}}, status=404)

    llm.before = reject
    await machine.success(**SMALL, INFERRUN_RETRY_SECONDS="10")
    assert {one["custom_id"] for one in objects(s3, "errors")} == {
        f"request-{index}" for index in other
    }


async def test_a_missing_object_is_reported_with_what_exists(
    machine: Machine, s3: S3Server
) -> None:
    machine.contract["input"]["s3"]["path"] = "in/none.jsonl"
    ended = await machine.failure(3)
    assert ended.message == (
        "input.s3.path: s3://records/in/none.jsonl is no object, and has no *.jsonl file; it contains nothing"
    )


async def test_a_wrong_secret_key_is_reported(machine: Machine) -> None:
    (machine.folder / "endpoints" / "input" / "secretAccessKey").write_text("wrong")
    ended = await machine.failure(3, "access denied; check input.s3.credentialsRef")
    assert "wrong" not in ended.message


@pytest.mark.parametrize("value", [b"\xff\xfe", b"two\nlines", "schlüssel".encode()])
async def test_a_key_that_is_no_line_of_ascii_is_named(machine: Machine, value: bytes) -> None:
    (machine.folder / "endpoints" / "input" / "secretAccessKey").write_bytes(value)
    await machine.failure(
        3, "key secretAccessKey of Secret 's3-credentials' must be printable ASCII on one line"
    )


async def test_a_missing_bucket_is_named(machine: Machine) -> None:
    machine.contract["input"]["s3"]["bucket"] = "other"
    await machine.failure(3, "check input.s3.bucket and input.s3.endpoint")


async def test_a_server_without_conditional_writes_is_rejected(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    async with s3_server(tmp_path / "old", "--nometa") as old:
        ended = await machine_of(tmp_path / "run", old, llm.url).pod(**SMALL)
    assert ended.code == 5
    assert "does not support conditional writes (If-None-Match)" in ended.message
    assert not llm.prompts


async def test_chat_completions_and_embeddings_of_a_real_server(
    tmp_path: Path, s3: S3Server
) -> None:
    async with llama_server(tmp_path) as url:
        machine = machine_of(tmp_path / "run", s3, url)
        lines = [request("chat", "hello"), request("embedding", "hello", url="/v1/embeddings")]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (s3.bucket / "in" / "batch.jsonl").write_text(text)
        ended = await machine.process(INFERRUN_RETRY_SECONDS="30")
    assert (ended.code, ended.message) == (0, "2 of 2 records predicted"), ended.stderr
    chat, embedding = objects(s3, "predictions")
    assert chat["response"]["body"]["object"] == "chat.completion"
    assert chat["response"]["body"]["choices"][0]["message"]["role"] == "assistant"
    assert embedding["response"]["body"]["data"][0]["object"] == "embedding"
    assert ended.result.usage is not None
    assert ended.result.usage.total_tokens > 10
