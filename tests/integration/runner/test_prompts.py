"""Prompts from columns: typed tables in, one request per record, and the answers as columns."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from aiohttp import web

from tests.integration.runner.documented import valid_spec
from tests.integration.runner.openai_server import OpenAiServer, llama_server, posted
from tests.integration.runner.pods import REPOSITORY, Machine

SCHEMA = {
    "type": "object",
    "required": ["team"],
    "properties": {"team": {"enum": ["web", "app"]}, "urgent": {"type": "boolean"}},
}
TICKETS = pa.table(
    {
        "id": pa.array([7, 2**60, 9], pa.int64()),
        "title": ["Slow page", "{{ 7*7 }} crash", 'ü\n"quoted"'],
        "when": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "price": pa.array([None, "1.10", "2.00"], pa.string()).cast(pa.decimal128(9, 2)),
        "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
    }
)


def machine_of(
    folder: Path, url: str, request: dict[str, Any], *, form: str = "parquet", **more: Any
) -> Machine:
    contract = {
        "jobId": "uid",
        "jobName": "inf-tickets",
        "kserve": {"modelUrl": url, "modelName": "tiny", "protocolVersion": "openai"},
        "parameters": {"product": "Iris"},
        "request": request,
        "input": {"file": {"claimName": "c", "path": f"tickets.{form}", "format": form}},
        "output": {"file": {"claimName": "c", "path": "out", "format": "jsonl"}},
        **more,
    }
    machine = Machine(folder, contract=contract)
    pq.write_table(TICKETS, machine.input / "tickets.parquet")
    return machine


def lines(machine: Machine, out: str = "out") -> list[dict[str, Any]]:  # Any: JSON
    paths = sorted((machine.output / out / "inf-tickets" / "predictions").iterdir())
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


async def test_a_gateway_that_fails_to_list_its_models_is_asked_for_predictions(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    llm.status_of_list = 500
    machine = machine_of(tmp_path, llm.url, {"prompt": "{{ title }}"})
    ended = await machine.process()
    assert (ended.code, ended.message) == (0, "3 of 3 records predicted"), ended.stderr


async def test_columns_become_a_prompt_and_the_answer_columns(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    bodies: list[Any] = []

    async def keep(sent: web.Request) -> None:
        bodies.append(await sent.json())

    llm.before = keep
    request = {
        "system": "Sort tickets of {{ params.product }}.",
        "prompt": "{{ title }} {{ tags }} {{ price }} {{ when }}",
        "maxTokens": 9,
        "body": {
            "temperature": 0,
            "seed": "{{ id }}",
            "metadata": {"title": "{{ title }}", "price": "{{ price }}"},
        },
    }
    machine = machine_of(tmp_path / "run", llm.url, request, passThroughColumns=["id"])
    ended = await machine.process()
    assert (ended.code, ended.message) == (0, "3 of 3 records predicted"), ended.stderr
    sent = {body["seed"]: body for body in bodies}
    assert sent[2**60]["messages"] == [
        {"role": "system", "content": "Sort tickets of Iris."},
        {"role": "user", "content": "{{ 7*7 }} crash [] 1.10 1970-01-01 00:00:00.000001+00:00"},
    ]
    assert sent[9]["metadata"] == {"title": 'ü\n"quoted"', "price": "2.00"}
    assert sent[7]["metadata"]["price"] is None
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in bodies} == {
        ("tiny", 0, 9)
    }
    first = lines(machine)[0]
    assert first["id"] == 7
    assert first["prediction"] == {
        "text": 'Slow page ["a"]  1970-01-01 00:00:00+00:00',
        "finish_reason": "stop",
        "prompt_tokens": 3,
        "completion_tokens": 2,
    }
    assert ended.result.usage is not None
    assert ended.result.usage.total_tokens == 15


async def test_an_answer_follows_the_schema_or_is_an_error_of_its_record(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    asked: list[int] = []

    async def answer(sent: web.Request) -> web.StreamResponse:
        body = await sent.json()
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        asked.append(len(body["messages"]))
        title = body["messages"][0]["content"]
        texts = {
            "Slow page": '{"team":"web","urgent":true}',
            "{{ 7*7 }} crash": '{"team":"c4nary"}',
        }
        is_told = len(body["messages"]) > 1
        content = texts.get(title) or ('{"team":"app"}' if is_told else "c4nary")
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        )

    llm.before = answer
    machine = machine_of(
        tmp_path / "run", llm.url, {"prompt": "{{ title }}", "responseSchema": SCHEMA}
    )
    ended = await machine.process()
    assert ended.code == 0, ended.stderr
    assert ended.message == "2 of 3 records predicted; 1 failed, with their errors in the output"
    assert sorted(asked) == [1, 1, 1, 3, 3, 3]
    found = lines(machine)
    assert [found[0]["prediction"][name] for name in ("team", "urgent")] == ["web", True]
    assert [found[2]["prediction"][name] for name in ("team", "urgent", "prompt_tokens")] == [
        "app",
        None,
        2,
    ]
    error = found[1]["error"]
    assert error["code"] == "invalid_answer"
    assert error["message"] == (
        "the answer does not follow request.responseSchema: /team: not one of 2 values, asked 3 times"
    )
    assert "c4nary" not in json.dumps(found) + ended.stderr + ended.stdout


async def test_the_documented_config_works(tmp_path: Path, llm: OpenAiServer) -> None:
    text = (REPOSITORY / "docs" / "how-to" / "prompts.md").read_text()
    manifest, rows, results = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[:3]
    spec = valid_spec(yaml.safe_load(manifest))

    async def answer(sent: web.Request) -> web.StreamResponse:
        body = await sent.json()
        assert body["messages"][0] == {
            "role": "system",
            "content": "You sort support tickets of Iris.",
        }
        is_crash = body["messages"][1]["content"] == "Crash\nThe app {{ crashes }}"
        content = '{"team":"app","urgent":true}' if is_crash else '{"team":"web"}'
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return web.json_response(
            {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        )

    llm.before = answer
    machine = machine_of(
        tmp_path / "run", llm.url, spec["request"], **spec["storage"], passThroughColumns=["id"]
    )
    (machine.input / "tickets.csv").write_text(rows)
    await machine.success("2 of 2 records predicted")
    assert lines(machine, out="sorted") == [json.loads(line) for line in results.splitlines()]


async def test_embeddings_of_a_table_have_a_fixed_length(tmp_path: Path) -> None:
    async def embed(sent: web.Request) -> web.StreamResponse:
        texts = (await sent.json())["input"]
        if "5" in texts:
            return web.json_response({"error": {"message": "too long"}}, status=400)
        data = [{"index": at, "embedding": [float(text), 0.1]} for at, text in enumerate(texts)]
        data = [
            {**one, "embedding": [0.5]} if text == "7" else one
            for one, text in zip(data, texts, strict=True)
        ]
        return web.json_response({"data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    async with posted("/v1/embeddings", embed) as url:
        machine = machine_of(tmp_path / "run", url, {"task": "Embedding", "prompt": "{{ n }}"})
        machine.contract["output"]["file"]["format"] = "parquet"
        pq.write_table(pa.table({"n": list(range(12))}), machine.input / "tickets.parquet")
        ended = await machine.pod()
    assert ended.message == "10 of 12 records predicted; 2 failed, with their errors in the output"
    found = pq.read_table(machine.output / "out" / "inf-tickets" / "predictions")
    vector = pa.list_(pa.float32(), 2)
    assert found.schema.field("prediction").type == pa.struct([("embedding", vector)])
    assert found.column("prediction").to_pylist()[3] == {
        "embedding": [3.0, pa.scalar(0.1, pa.float32()).as_py()]
    }
    errors = {at: one["code"] for at, one in enumerate(found.column("error").to_pylist()) if one}
    assert errors == {5: "http_400", 7: "invalid_prediction"}


async def test_a_missing_column_ends_the_run_before_the_first_request(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    ended = await machine_of(tmp_path / "run", llm.url, {"prompt": "{{ titel }} {{ id }}"}).failure(
        3
    )
    assert ended.message.startswith(
        "request: tickets.parquet has no column 'titel', did you mean 'title'?; it has id"
    )
    assert not llm.prompts


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"prompt": "a\n{{ title"}, "request.prompt: line 2: unexpected end of template"),
        (
            {"prompt": "{{ params.produkt }}"},
            "request.prompt: params has no 'produkt', did you mean product?",
        ),
        ({"prompt": "x", "system": "{{ title }}"}, "request.system: reads the column 'title'"),
        ({"prompt": "x", "task": "Talk"}, 'request.task is "Talk"; allowed: input should be'),
        ({}, "spec.request.prompt is not set; required by the task Chat"),
        (
            {"prompt": "x", "responseSchema": {"type": "object", "required": 1}},
            "request.responseSchema: not a valid JSON schema",
        ),
        (
            {"prompt": "x", "outputs": [{"name": "text", "path": "/id", "type": "string"}]},
            "request.outputs.0.name: ",
        ),
        (
            {"prompt": "x", "outputs": [{"name": "a", "path": "/id", "type": "strin"}]},
            'request.outputs.0.type is "strin"; it is not a type',
        ),
    ],
)
async def test_a_request_that_cannot_be_made_ends_the_run_with_its_field(
    tmp_path: Path, llm: OpenAiServer, request_: dict[str, Any], message: str
) -> None:
    ended = await machine_of(tmp_path / "run", llm.url, request_).failure(2)
    assert ended.message.startswith(message)


async def test_a_record_that_cannot_be_rendered_costs_only_itself(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    machine = machine_of(tmp_path / "run", llm.url, {"prompt": "{{ title }} {{ tags[0] }}"})
    ended = await machine.pod()
    assert ended.message == "1 of 3 records predicted; 2 failed, with their errors in the output"
    error = lines(machine)[1]["error"]
    assert (error["code"], error["attempts"]) == ("invalid_input", 0)
    assert (
        error["message"]
        == "request.prompt: the template names something that the record does not have"
    )


FILES = {"jsonl": '{"a": 1, "odd name": "x, y", "c": 2}\n', "csv": 'a,odd name,c\n1,"x, y",2\n'}


@pytest.mark.parametrize("form", FILES)
async def test_every_format_with_columns_feeds_a_prompt(
    tmp_path: Path, llm: OpenAiServer, form: str
) -> None:
    machine = machine_of(
        tmp_path / "run", llm.url, {"prompt": '{{ row["odd name"] }} of {{ a }}'}, form=form
    )
    (machine.input / f"tickets.{form}").write_text(FILES[form])
    await machine.success("1 of 1 records predicted")
    assert list(llm.prompts) == ["x, y of 1"]


async def test_a_system_message_from_a_config_map_is_mounted(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    request = {
        "prompt": "{{ id }}",
        "systemFrom": {"configMapKeyRef": {"name": "prompts", "key": "sort"}},
    }
    machine = machine_of(tmp_path / "run", llm.url, request)
    ended = await machine.failure(2)
    assert ended.message.startswith("request.systemFrom: the text at ")
    systems: list[str] = []

    async def keep(sent: web.Request) -> None:
        systems.append((await sent.json())["messages"][0]["content"])

    llm.before = keep
    machine.endpoint("request", {"system": "Sort {{ params.product }}"})
    await machine.success()
    assert set(systems) == {"Sort Iris"}


async def test_several_texts_are_embedded_in_one_request(tmp_path: Path, llm: OpenAiServer) -> None:
    sizes: list[int] = []

    async def embed(sent: web.Request) -> web.StreamResponse:
        texts = (await sent.json())["input"]
        sizes.append(len(texts))
        data = [{"index": at, "embedding": [float(text), 0.5]} for at, text in enumerate(texts)]
        return web.json_response(
            {"data": data[::-1], "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)}}
        )

    async with posted("/v1/embeddings", embed) as url:
        machine = machine_of(tmp_path / "run", url, {"task": "Embedding", "prompt": "{{ n }}"})
        pq.write_table(pa.table({"n": list(range(200))}), machine.input / "tickets.parquet")
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "200 of 200 records predicted")
    assert [line["prediction"]["embedding"] for line in lines(machine)] == [
        [float(n), 0.5] for n in range(200)
    ]
    assert max(sizes) == 64
    assert ended.result.usage is not None
    assert ended.result.usage.prompt_tokens == 200


@pytest.mark.thorough
async def test_chats_and_embeddings_of_a_real_server(tmp_path: Path) -> None:
    async with llama_server(tmp_path) as url:
        request = {
            "system": "Be brief.",
            "prompt": "{{ title }}",
            "maxTokens": 4,
            "body": {"temperature": 0},
        }
        chat = machine_of(tmp_path / "chat", url, request)
        embedding = machine_of(
            tmp_path / "embedding", url, {"task": "Embedding", "prompt": "{{ title }}"}
        )
        ended = await asyncio.gather(
            *(one.process(INFERRUN_RETRY_SECONDS="30") for one in (chat, embedding))
        )
    for one in ended:
        assert (one.code, one.message) == (0, "3 of 3 records predicted"), one.stderr
    assert {tuple(line["prediction"]) for line in lines(chat)} == {
        ("text", "finish_reason", "prompt_tokens", "completion_tokens")
    }
    assert all(line["prediction"]["prompt_tokens"] > 5 for line in lines(chat))
    assert {len(line["prediction"]["embedding"]) for line in lines(embedding)} == {64}
