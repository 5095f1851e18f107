"""Records that are the same request are sent once, and the output is that of a run that sends them
all: the server's own count is compared."""

import asyncio
import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.servers import CountingModel

COUNT, DISTINCT = 600, 150
SMALL = {"INFERRUN_CHUNK_BYTES": "4096", "INFERRUN_CONCURRENCY": "8"}
ONCE, EACH = {"INFERRUN_DUPLICATES": "SendOnce"}, {"INFERRUN_DUPLICATES": "SendEach"}
GREEDY = {"temperature": 0}


def prompt_of(index: int) -> str:
    return f"prompt {index * 7919 % DISTINCT}"


def lines(count: int = COUNT, **body: Any) -> list[dict[str, Any]]:  # Any: JSON
    return [
        {
            "custom_id": f"request-{index}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "tiny",
                "messages": [{"role": "user", "content": prompt_of(index)}],
                **body,
            },
        }
        for index in range(count)
    ]


def machine_of(folder: Path, url: str, rows: list[dict[str, Any]]) -> Machine:  # Any: JSON
    machine = Machine(
        folder,
        contract={
            "jobId": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
            "jobName": "inf-batch-5be07ada",
            "kserve": {"modelUrl": url, "protocolVersion": "openai"},
            "input": {"file": {"claimName": "c", "path": "batch.jsonl", "format": "openai"}},
            "output": {"file": {"claimName": "c", "path": "out", "format": "openai"}},
        },
    )
    machine.write_rows(rows, "batch.jsonl")
    return machine


def without_ids(machine: Machine) -> list[dict[str, Any]]:  # Any: JSON
    """The results without the ids that each result has anew."""
    return [{name: value for name, value in row.items() if name != "id"} for row in machine.results]


async def test_the_output_is_the_same_and_each_request_is_sent_once(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    each = machine_of(tmp_path / "each", llm.url, lines(**GREEDY))
    whole = await each.success(f"{COUNT} of {COUNT} records predicted", **SMALL, **EACH)
    assert set(llm.prompts.values()) == {COUNT // DISTINCT}
    llm.prompts.clear()
    once = machine_of(tmp_path / "once", llm.url, lines(**GREEDY))
    ended = await once.success(f"{COUNT} of {COUNT} records predicted", **SMALL)
    assert llm.prompts == Counter(map(prompt_of, range(DISTINCT)))
    assert without_ids(once) == without_ids(each)
    assert whole.result.usage is not None
    assert whole.result.usage.total_tokens == 5 * COUNT
    assert ended.result.usage is not None
    assert ended.result.usage.total_tokens == 5 * DISTINCT, "what was not sent costs nothing"


@pytest.mark.parametrize(
    ("body", "environment", "times"),
    [
        ({}, {}, 4),
        ({"temperature": 0.7}, {}, 4),
        ({"temperature": 0.7}, ONCE, 1),
        ({"temperature": 0.7, "seed": 7}, {}, 1),
        ({**GREEDY, "tools": []}, {}, 4),
        (GREEDY, EACH, 4),
    ],
)
async def test_only_answers_that_do_not_vary_are_shared_unless_the_config_says_so(
    tmp_path: Path,
    llm: OpenAiServer,
    body: dict[str, Any],
    environment: dict[str, str],
    times: int,
) -> None:
    machine = machine_of(tmp_path, llm.url, lines(**body))
    await machine.success(f"{COUNT} of {COUNT} records predicted", **SMALL, **environment)
    assert set(llm.prompts.values()) == {times}


async def test_one_changed_member_makes_another_request(tmp_path: Path, llm: OpenAiServer) -> None:
    rows = [*lines(3, **GREEDY), *lines(3, **GREEDY, max_tokens=5), *lines(3, **GREEDY, top_p=1)]
    machine = machine_of(tmp_path, llm.url, rows)
    await machine.success("9 of 9 records predicted", **SMALL)
    assert sum(llm.prompts.values()) == 9


async def test_a_rejected_request_is_a_failed_record_each_time(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    rows = lines(4, **GREEDY)
    for row in rows[1:3]:
        row["body"]["messages"][0]["content"] = "bad"
    machine = machine_of(tmp_path, llm.url, rows)
    await machine.success(
        "2 of 4 records predicted; 2 failed, with their errors in the output", **SMALL
    )
    assert [one["custom_id"] for one in machine.errors] == ["request-1", "request-2"]


async def test_after_a_kill_what_is_committed_is_not_sent_again(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    machine = machine_of(tmp_path, llm.url, lines(**GREEDY))
    held = asyncio.Event()

    async def hold_in_the_middle(_: web.Request) -> web.StreamResponse | None:
        if len(llm.prompts) >= DISTINCT * 2 // 3:
            await held.wait()
        return None

    llm.before = hold_in_the_middle
    pod = await machine.start(environment=SMALL)
    commits = machine.run_folder / "commits"
    await until(lambda: llm.in_flight == 8 and len(list(commits.glob("[!.]*"))) > 2)
    pod.signal(signal.SIGKILL)
    assert (await pod.end()).code == -signal.SIGKILL
    held.set()
    await until(lambda: llm.in_flight == 0)
    done = {
        prompt_of(int(json.loads(line)["custom_id"].removeprefix("request-")))
        for path in commits.glob("[!.]*")
        for line in (machine.run_folder / json.loads(path.read_text())["part"]["file"])
        .read_text()
        .splitlines()
    }
    llm.prompts.clear()
    ended = await machine.process(**SMALL)
    message = f"{COUNT} of {COUNT} records predicted"
    assert (ended.code, ended.message) == (0, message), ended.stderr
    assert len(done) > DISTINCT // 4
    assert not done & set(llm.prompts)
    assert set(llm.prompts.values()) == {1}
    answers = [
        one["response"]["body"]["choices"][0]["message"]["content"] for one in machine.results
    ]
    assert answers == [prompt_of(index) for index in range(COUNT)]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
async def test_over_many_kills_only_what_was_in_flight_is_sent_again(
    tmp_path: Path, llm: OpenAiServer, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    machine = machine_of(tmp_path, llm.url, lines(**GREEDY))
    environment = {**SMALL, "INFERRUN_SAVE_SECONDS": "0.05"}
    kills, lost = 0, 0

    async def slow(_: web.Request) -> None:
        await asyncio.sleep(0.2)

    llm.before = slow
    while True:
        pod = await machine.start(environment=environment)
        ending = asyncio.create_task(pod.end())
        seen = sum(llm.prompts.values())
        await asyncio.wait([ending], timeout=1.5 + chance.random())
        if ending.done():
            break
        pod.signal(signal.SIGKILL)
        await ending
        await until(lambda: llm.in_flight == 0)
        kills += 1
        # what was in flight, and what was answered since the last save
        lost += min(sum(llm.prompts.values()) - seen, 3 * 8)
    assert (await ending).message == f"{COUNT} of {COUNT} records predicted"
    assert kills > 0
    assert set(llm.prompts) == set(map(prompt_of, range(DISTINCT)))
    assert sum(llm.prompts.values()) <= DISTINCT + lost
    answers = [
        one["response"]["body"]["choices"][0]["message"]["content"] for one in machine.results
    ]
    assert answers == [prompt_of(index) for index in range(COUNT)]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_prompts_of_the_same_columns_are_sent_once(
    tmp_path: Path, llm: OpenAiServer, form: str
) -> None:
    def machine(name: str) -> Machine:
        made = Machine(
            tmp_path / name,
            contract={
                "jobId": "uid",
                "jobName": "inf-texts",
                "kserve": {"modelUrl": llm.url, "modelName": "tiny", "protocolVersion": "openai"},
                "request": {"prompt": "Say {{ text }}", "body": GREEDY},
                "input": {"file": {"claimName": "c", "path": f"texts.{form}", "format": form}},
                "output": {"file": {"claimName": "c", "path": "out", "format": form}},
            },
        )
        numbers = list(range(COUNT))
        texts = [prompt_of(index) for index in numbers]
        if form == "parquet":
            table = pa.table({"number": numbers, "text": texts})
            pq.write_table(table, made.input / "texts.parquet", row_group_size=100)
        else:
            rows = [{"number": n, "text": text} for n, text in zip(numbers, texts, strict=True)]
            made.write_rows(rows, "texts.jsonl")
        return made

    def results(made: Machine) -> Any:  # Any: rows
        paths = sorted((made.output / "out/inf-texts/predictions").iterdir())
        if form == "jsonl":
            return [line for path in paths for line in path.read_text().splitlines()]
        return pa.concat_tables([pq.read_table(path) for path in paths])

    once, each = machine("once"), machine("each")
    await once.success(f"{COUNT} of {COUNT} records predicted", **SMALL)
    assert llm.prompts == Counter(f"Say {prompt_of(index)}" for index in range(DISTINCT))
    await each.success(f"{COUNT} of {COUNT} records predicted", **SMALL, **EACH)
    assert results(once) == results(each)


@pytest.mark.parametrize("environment", [{}, ONCE])
async def test_rows_that_share_requests_are_sent_once_only_if_the_config_says_so(
    file: Machine, model: CountingModel, environment: dict[str, str]
) -> None:
    file.write_rows([index % 40, 0.5] for index in range(1000))
    await file.success("1000 of 1000 records predicted", INFERRUN_BATCH_ROWS="50", **environment)
    assert [row["prediction"] for row in file.results] == [
        index % 40 + 0.5 for index in range(1000)
    ]
    assert set(model.rows.values()) == {1 if environment else 25}
