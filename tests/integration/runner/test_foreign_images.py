"""Images in the files of Hugging Face datasets reach a model as datasets itself reads them, or are
errors of their records."""

import io
import json
from base64 import b64decode
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from PIL import Image

from tests.foreign.software import files_of, readings_of
from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine

EXPECTED = readings_of("datasets")


def shown(part: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """An image as `expected.json` has it."""
    with Image.open(io.BytesIO(b64decode(part["image_url"]["url"].partition(",")[2]))) as image:
        return {"size": list(image.size), "pixel": image.convert("RGB").tobytes().hex()[:6]}


@pytest.mark.parametrize("name", EXPECTED)
async def test_images_are_sent_as_datasets_reads_them(
    tmp_path: Path, llm: OpenAiServer, name: str
) -> None:
    rows = EXPECTED[name]
    column = next(one for one in rows[0] if one != "name")
    sent: dict[str, list[Any]] = defaultdict(list)

    async def answer(request: web.Request) -> web.StreamResponse:
        content = (await request.json())["messages"][-1]["content"]
        text, *images = content if isinstance(content, list) else [{"text": content}]
        sent[text["text"]] += map(shown, images)
        message = {"role": "assistant", "content": f"{len(images)} images"}
        return web.json_response(
            {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        )

    llm.before = answer
    contract = {
        "jobId": "uid",
        "jobName": "inf-images",
        "kserve": {"modelUrl": llm.url, "modelName": "m", "protocolVersion": "openai"},
        "request": {"prompt": "{{ name }}", "images": [{"column": column}]},
        "input": {"file": {"claimName": "c", "path": name, "format": "parquet"}},
        "output": {"file": {"claimName": "c", "path": "out", "format": "jsonl"}},
    }
    machine = Machine(tmp_path / "run", contract=contract)
    (machine.input / name).write_bytes((files_of("datasets") / name).read_bytes())
    ended = await machine.process()
    assert ended.code == 0, ended.stderr
    readable = {row["name"]: row[column] for row in rows if row[column] != "error"}
    lists = {key: value if isinstance(value, list) else [value] for key, value in readable.items()}
    assert sent == {key: [] if one == [None] else one for key, one in lists.items()}
    (part,) = (machine.output / "out" / "inf-images" / "predictions").iterdir()
    found = [json.loads(line) for line in part.read_text().splitlines()]
    errors = {rows[one["index"]]["name"]: one["error"] for one in found if "error" in one}
    assert errors.keys() == {row["name"] for row in rows} - readable.keys()
    assert all(
        "the path of an image without its bytes" in error["message"] for error in errors.values()
    )
