"""Values of placeholders in the paths, keys and URLs of real stores: each names exactly the place
that it says, and no other."""

import json
from typing import Any

import pytest
from aiohttp import web

from inferrun.resources import parse_config, parse_run
from inferrun.resources.resolution import resolve
from inferrun.resources.validation import config_problems
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import serving

pytestmark = pytest.mark.thorough

VALUES = (
    "a%2fb?c#d",
    "%252e%252e",
    "@host:80",
    "a b&c=d;e",
    "\uff0e\uff0e\u2215\uff0f\u2025",
    "*[a]{b}",
    "-a+b~",
    "'\"`$(run.name)<>|!^",
    "$$(x)",
    "\u00e9 e\u0301 \U0001f600",
    "x" * 200,
)
NAMES = tuple(one for one in VALUES if not {"*", "?"} & {*one})
ROWS = b"[1, 2]\n[3, 4]\n"
Storage = dict[str, Any]  # Any: free-form storage


def resolve_storage(
    input_: Storage, output: Storage, parameters: dict[str, str]
) -> tuple[Storage, Storage]:
    """Both ends of a run with these parameters, as its launch resolves them."""
    storage = {"input": input_, "output": output}
    spec = {"kserve": {"modelUrl": "http://model/v2/models/sum/infer"}, "storage": storage}
    config = parse_config({"metadata": {"name": "c"}, "spec": spec})
    assert config_problems(config) == ()
    interval = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}
    given = {"configRef": {"name": "c"}, "parameters": parameters, "interval": interval}
    found = resolve(
        parse_run({"metadata": {"name": "r"}, "spec": given}), config, is_our_runner=True
    )
    assert found.problems == ()
    return found.input, found.output


@pytest.mark.parametrize("value", NAMES)
async def test_a_value_is_one_folder_of_a_claim(file: Machine, value: str) -> None:
    place = file.input / "in" / value
    place.mkdir(parents=True)
    (place / "rows.jsonl").write_bytes(ROWS)
    file.contract["input"], file.contract["output"] = resolve_storage(
        {"file": {"claimName": "data", "path": "in/$(params.day)/rows.jsonl"}},
        {"file": {"claimName": "made", "path": "out/$(params.day)"}},
        {"day": value},
    )
    await file.success("2 of 2 records predicted")
    assert [one.name for one in (file.output / "out").iterdir()] == [value]


@pytest.mark.parametrize("value", NAMES)
async def test_a_value_is_one_part_of_a_key(file: Machine, s3: S3Server, value: str) -> None:
    place = s3.bucket / "in" / value
    place.mkdir(parents=True)
    (place / "rows.jsonl").write_bytes(ROWS)
    for end in ("input", "output"):
        credentials(file.folder / "endpoints" / end)
    file.contract["input"], file.contract["output"] = resolve_storage(
        {"s3": s3.spec("in/$(params.day)/rows.jsonl")},
        {"s3": s3.spec("out/$(params.day)")},
        {"day": value},
    )
    await file.success("2 of 2 records predicted")
    assert [one.name for one in (s3.bucket / "out").iterdir()] == [value]
    [manifest] = (s3.bucket / "out" / value).glob("*/manifest.json")
    assert json.loads(manifest.read_text())["records"]["completed"] == 2


@pytest.mark.parametrize("value", VALUES)
async def test_a_value_is_one_part_of_a_path_and_one_value_of_a_query(
    file: Machine, value: str
) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.match_info["day"], dict(request.query)))
        return web.Response(body=ROWS)

    application = web.Application()
    application.router.add_get("/in/{day:[^/]+}/rows.jsonl", answer)
    async with serving(application) as address:
        url = f"{address}/in/$(params.day)/rows.jsonl?day=$(params.day)&x=1"
        file.contract["input"], _ = resolve_storage(
            {"http": {"url": url}}, file.contract["output"], {"day": value}
        )
        ended = await file.pod()
    assert (ended.code, ended.message) == (0, "2 of 2 records predicted")
    assert set(map(str, asked)) == {str((value, {"day": value, "x": "1"}))}
