"""The format `files`: each file of a folder is a record, with its path, its content and the columns
of its partitions."""

import io
import json
from base64 import b64decode
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from PIL import Image

from tests.integration.runner.echo_servers import kserve_server
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel

FILES = {
    "dt=2026-11-22/a.png": b"\x89PNG\x00\xff",
    "dt=2026-11-22/b.txt.gz": b"\x1f\x8bno gzip",
    "dt=2026-11-23/c": b"plain",
}


async def test_files_reach_the_model_byte_for_byte(file: Machine, model: CountingModel) -> None:
    for name, content in {
        **FILES,
        "dt=2026-11-23/empty": b"",
        "dt=2026-11-23/large": b"x" * 5000,
    }.items():
        path = file.input / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    seen: list[str] = []

    async def take(request: web.Request) -> web.StreamResponse | None:
        tensor = orjson.loads(await request.read())["inputs"][0]
        seen.extend(tensor["data"])
        output = {
            "name": "o",
            "shape": [len(tensor["data"])],
            "datatype": "INT64",
            "data": [1] * len(tensor["data"]),
        }
        return web.Response(body=orjson.dumps({"outputs": [output]}))

    model.before = take
    file.contract["kserve"]["modelUrl"] = model.address
    file.contract["input"] = {"file": {"claimName": "rows", "path": "photos", "format": "files"}}
    column = {"columns": ["content"], "datatype": "BYTES", "parameters": {"content_type": "base64"}}
    file.contract |= {
        "tensors": {"inputs": [column]},
        "passThroughColumns": ["path", "name", "size", "dt"],
    }
    ended = await file.success(INFERRUN_RECORD_BYTES="2048")
    assert sorted(b64decode(text) for text in seen) == sorted(FILES.values())
    assert "not read: empty 1 (dt=2026-11-23/empty)" in ended.message
    parts = [part.read_text() for part in sorted(file.output.glob("results/*/predictions/*"))]
    lines = [json.loads(line) for part in parts for line in part.splitlines()]
    good = {line["path"]: line for line in lines if not line.get("error")}
    assert set(good) == set(FILES)
    first = good["dt=2026-11-22/a.png"]
    assert (first["name"], first["size"], first["dt"], first["prediction"]) == (
        "a.png",
        6,
        "2026-11-22",
        1,
    )
    [failed] = [line for line in lines if line.get("error")]
    assert failed["path"] == "dt=2026-11-23/large"
    assert "has 5000 bytes, at most 2048 are allowed" in failed["error"]["message"]


async def test_results_are_not_written_as_files(file: Machine) -> None:
    file.contract["output"]["file"]["format"] = "files"
    await file.failure(2, 'output.file.format is "files"; results cannot be written in it')


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
async def test_images_are_tensors_for_a_server_of_others(file: Machine, protocol: str) -> None:
    photos = file.input / "photos"
    photos.mkdir()
    for name, color in {"a.png": (255, 0, 51), "b.jpg": (0, 0, 0), "c.png": (102, 255, 0)}.items():
        save(photos / name, color)
    (photos / "d.png").write_bytes(b"no image")
    async with kserve_server(is_binary=True) as server:
        url = server.grpc if protocol == "grpc-v2" else server.rest
        file.contract["kserve"] = {
            "modelName": "FP32-4",
            "modelUrl": url,
            "protocolVersion": protocol,
        }
        file.contract["input"] = {
            "file": {"claimName": "rows", "path": "photos", "format": "files"}
        }
        outputs = [{"name": "echo"}, {"name": "seen"}]
        inputs = [{"columns": ["content"], "decode": "Image"}]
        file.contract |= {
            "tensors": {"inputs": inputs, "outputs": outputs},
            "passThroughColumns": ["path"],
        }
        ended = await file.pod()
    assert ended.code == 0, ended.message
    parts = [part.read_text() for part in sorted(file.output.glob("results/*/predictions/*"))]
    lines = {line["path"]: line for part in parts for line in map(json.loads, part.splitlines())}
    assert numbers(lines["a.png"]["prediction"]["echo"]) == pytest.approx(
        [1.0] * 4 + [0.0] * 4 + [0.2] * 4
    )
    assert numbers(lines["b.jpg"]["prediction"]["echo"]) == [0.0] * 12
    assert numbers(lines["c.png"]["prediction"]["echo"]) == pytest.approx(
        [0.4] * 4 + [1.0] * 4 + [0.0] * 4
    )
    assert "column 'content' has no image that can be decoded" in lines["d.png"]["error"]["message"]


def save(path: Path, color: tuple[int, int, int]) -> None:
    """Write an image of one colour."""
    out = io.BytesIO()
    Image.new("RGB", (20, 10), color).save(out, "JPEG" if path.suffix == ".jpg" else "PNG")
    path.write_bytes(out.getvalue())


def numbers(value: object) -> list[float]:
    """The numbers of nested arrays, in order."""
    return [one for item in value for one in numbers(item)] if isinstance(value, list) else [value]  # type: ignore[list-item]  # of JSON
