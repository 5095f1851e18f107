"""Answers that were paid for are not lost with the Pod, although their chunk is not complete."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.s3_server import S3Server, credentials

COUNT = 25
SLOW = {"INFERRUN_CONCURRENCY": "1", "INFERRUN_SAVE_SECONDS": "0.2"}
WHOLE = f"{COUNT} of {COUNT} records predicted"


class Held:
    """Answers until it has answered a number of requests, then waits until it is released."""

    def __init__(self, llm: OpenAiServer, number: int) -> None:
        self._llm = llm
        self._number = number
        self._is_released = asyncio.Event()
        self.is_reached = asyncio.Event()
        llm.before = self.hold

    async def hold(self, _: web.Request) -> web.StreamResponse | None:
        if sum(self._llm.prompts.values()) >= self._number:
            self.is_reached.set()
            await self._is_released.wait()
        return None

    async def release(self) -> None:
        self._is_released.set()
        await until(lambda: self._llm.in_flight == 0)
        self._llm.prompts.clear()


@pytest.fixture(params=["file", "s3"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, llm: OpenAiServer) -> Machine:
    made = Machine(
        tmp_path / "run",
        contract={
            "jobId": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
            "runId": "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344",
            "jobName": "inf-texts-5be07ada",
            "kserve": {"modelUrl": llm.url, "modelName": "tiny", "protocolVersion": "openai"},
            "request": {"prompt": "{{ text }}"},
            "input": {"file": {"claimName": "c", "path": "texts.jsonl", "format": "jsonl"}},
        },
    )
    made.write_rows(
        [{"id": f"id-{at}", "text": f"text {at}"} for at in range(COUNT)], "texts.jsonl"
    )
    if request.param == "file":
        made.contract["output"] = {"file": {"claimName": "c", "path": "out", "format": "jsonl"}}
    else:
        s3: S3Server = request.getfixturevalue("s3")
        made.contract["output"] = {"s3": s3.spec("out", format="jsonl")}
        credentials(made.folder / "endpoints/output")
    return made


def folder_of(machine: Machine, request: pytest.FixtureRequest) -> Path:
    name = str(machine.contract["jobName"])
    if "file" in machine.contract["output"]:
        return machine.output / "out" / name
    s3: S3Server = request.getfixturevalue("s3")
    return s3.bucket / "out" / name


def texts_in(folder: Path) -> list[Any]:  # Any: JSON
    paths = sorted((folder / "predictions").glob("[!.]*"))
    return [
        json.loads(line)["prediction"]["text"]
        for path in paths
        for line in path.read_text().splitlines()
    ]


def saved_in(folder: Path) -> list[Path]:
    return list((folder / "answers").glob("[!.]*"))


async def test_a_killed_pod_loses_only_the_request_in_flight(
    machine: Machine, llm: OpenAiServer, request: pytest.FixtureRequest
) -> None:
    held, folder = Held(llm, 10), folder_of(machine, request)
    pod = await machine.start(environment=SLOW)
    await held.is_reached.wait()
    await until(lambda: sum(path.read_bytes().count(b"\n") - 1 for path in saved_in(folder)) == 10)
    pod.signal(signal.SIGKILL)
    await pod.end()
    await held.release()
    ended = await machine.process(**SLOW)
    assert (ended.code, ended.message) == (0, WHOLE), ended.stderr
    assert llm.prompts == {f"text {at}": 1 for at in range(10, COUNT)}
    assert texts_in(folder) == [f"text {at}" for at in range(COUNT)]
    assert ended.result.usage is not None
    assert ended.result.usage.total_tokens == 5 * COUNT
    assert saved_in(folder) == []


async def test_a_stopped_run_keeps_what_it_has_for_the_run_that_completes_it(
    machine: Machine, llm: OpenAiServer, request: pytest.FixtureRequest
) -> None:
    held = Held(llm, 10)
    pod = await machine.start(environment={**SLOW, "INFERRUN_SAVE_SECONDS": "60"})
    await held.is_reached.wait()
    pod.signal(signal.SIGTERM)
    await pod.end()
    assert len(saved_in(folder_of(machine, request))) == 1
    await held.release()
    machine.retry(None)
    ended = await machine.process(**SLOW)
    assert (ended.code, ended.message) == (0, WHOLE), ended.stderr
    assert llm.prompts == {f"text {at}": 1 for at in range(10, COUNT)}
    assert texts_in(folder_of(machine, request)) == [f"text {at}" for at in range(COUNT)]


async def test_a_damaged_file_is_asked_for_again(
    machine: Machine, llm: OpenAiServer, request: pytest.FixtureRequest
) -> None:
    held, folder = Held(llm, 10), folder_of(machine, request)
    pod = await machine.start(environment={**SLOW, "INFERRUN_SAVE_SECONDS": "60"})
    await held.is_reached.wait()
    pod.signal(signal.SIGTERM)
    await pod.end()
    (saved,) = saved_in(folder)
    saved.write_bytes(saved.read_bytes().replace(b"text 3", b"text 4"))
    await held.release()
    ended = await machine.process(**SLOW)
    assert (ended.code, ended.message) == (0, WHOLE), ended.stderr
    assert len(llm.prompts) == COUNT
    assert texts_in(folder) == [f"text {at}" for at in range(COUNT)]
