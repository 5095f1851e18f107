"""Objects that are stored with a Content-Encoding, as `aws s3 cp --content-encoding gzip` and
`gsutil cp -Z` store them, in each store: what was compressed reaches the model, not the compressed
bytes."""

import asyncio
import gzip
import json
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import obstore
import orjson
import pyarrow
import pytest
from aiohttp import web
from obstore.store import S3Store

from tests.integration.runner.clouds import Clouds
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.integration.runner.servers import CountingModel

COUNT = 3000
ROWS = b"".join(b'{"custom_id": "r%d", "inputs": [%d, 0.5]}\n' % (at, at) for at in range(COUNT))
KEPT = gzip.compress(b"kept")
SMALL = {"INFERRUN_CHUNK_BYTES": "16384"}


def zstd(content: bytes) -> bytes:
    compressed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
    return compressed


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects are stored, and how a run reads them."""

    put: Callable[[str, bytes, str], None]
    """Stores an object under a key with a Content-Encoding."""

    read: Callable[[str, Mapping[str, Any]], None]  # Any: members of a storage object
    """Makes a path, with the other members, the input of the run."""


@pytest.fixture(params=["s3", "gcs", "azure", "http"])
def place(request: pytest.FixtureRequest, file: Machine, clouds: Clouds) -> Place:
    if request.param in ("s3", "http"):
        return in_s3(file, request.getfixturevalue("s3"), is_signed=request.param == "http")
    bucket = clouds.bucket(request.param)
    bucket.mount(file.folder / "endpoints" / "input")

    def put(name: str, content: bytes, encoding: str) -> None:
        if request.param == "azure":
            obstore.put(bucket.store, name, content, attributes={"Content-Encoding": encoding})
        else:
            put_in_gcs(bucket.place, name, content, encoding)

    def read(path: str, more: Mapping[str, Any]) -> None:  # Any: as above
        file.contract["input"] = {request.param: bucket.spec(path, **more)}

    return Place(put, read)


def in_s3(file: Machine, server: S3Server, *, is_signed: bool) -> Place:
    store = S3Store(
        BUCKET,
        config={
            "endpoint": server.url,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
        },
        region="us-east-1",
        client_options={"allow_http": True},
    )
    file.endpoint("input", {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY})

    def read(path: str, more: Mapping[str, Any]) -> None:  # Any: as above
        file.contract["input"] = {"s3": server.spec(path, **more)}
        if is_signed:
            url = obstore.sign(store, "GET", path, timedelta(hours=1))
            file.endpoint("input", {"url": url})
            file.contract["input"] = {"http": {"credentialsRef": {"name": "signed"}, **more}}

    def put(name: str, content: bytes, encoding: str) -> None:
        obstore.put(store, name, content, attributes={"Content-Encoding": encoding})

    return Place(put, read)


def put_in_gcs(place: Mapping[str, str], name: str, content: bytes, encoding: str) -> None:
    """obstore does not store it there."""
    described = json.dumps({"name": name, "contentEncoding": encoding}).encode()
    parts = b"--B\r\nContent-Type: application/json\r\n\r\n%b\r\n--B\r\nContent-Type: text/plain\r\n\r\n%b\r\n--B--\r\n"
    url = f"{place['endpoint']}/upload/storage/v1/b/{place['bucket']}/o?uploadType=multipart"
    headers = {"Content-Type": "multipart/related; boundary=B"}
    with urllib.request.urlopen(urllib.request.Request(url, parts % (described, content), headers)):  # noqa: S310  ours
        pass


@pytest.mark.parametrize(
    "stored",
    [
        ("rows.jsonl", "gzip", gzip.compress(ROWS)),
        ("rows.jsonl.gz", "gzip", gzip.compress(ROWS)),
        ("rows.jsonl", "zstd", zstd(ROWS)),
        ("rows.jsonl.zst", "gzip", gzip.compress(zstd(ROWS))),
        ("rows.jsonl", "gzip,aws-chunked", gzip.compress(ROWS)),
        ("rows.jsonl", "utf-8", ROWS),
    ],
    ids=["gzip", "gz and gzip", "zstd", "zst within gzip", "chunks", "text"],
)
async def test_what_was_compressed_is_read(
    file: Machine, model: CountingModel, place: Place, stored: tuple[str, str, bytes]
) -> None:
    name, encoding, content = stored
    await asyncio.to_thread(place.put, name, content, encoding)
    place.read(name, {})
    await file.success(f"{COUNT} of {COUNT} records predicted", **SMALL)
    assert sorted(line["prediction"] for line in file.results) == [at + 0.5 for at in range(COUNT)]


async def test_an_encoding_that_cannot_be_removed_is_named_before_a_request(
    file: Machine, model: CountingModel, place: Place
) -> None:
    await asyncio.to_thread(place.put, "rows.jsonl", ROWS, "br")
    place.read("rows.jsonl", {})
    ended = await file.failure(3)
    assert (ended.result.retryable, model.requests) == (False, [])
    assert (
        "rows.jsonl is stored with Content-Encoding br; only gzip and zstd are decompressed"
        in ended.message
    )


@pytest.mark.parametrize("place", ["s3", "gcs", "azure"], indirect=True)
async def test_each_file_of_a_folder_has_its_own_encoding(
    file: Machine, model: CountingModel, place: Place
) -> None:
    """A file is a record; one that cannot be decompressed is an error of its record."""
    stored = {
        "a.txt": (b"plain", "identity"),
        "b.txt": (gzip.compress(b"hello"), "gzip"),
        "c.txt.gz": (KEPT, "gzip"),
        "d.txt": (b"damaged", "gzip"),
        "e.txt": (zstd(b"z" * 3000), "zstd"),
        "f.txt": (b"unknown", "br"),
    }
    for name, (content, encoding) in stored.items():
        await asyncio.to_thread(place.put, f"docs/{name}", content, encoding)
    seen: list[bytes] = []

    async def take(request: web.Request) -> web.StreamResponse | None:
        tensor = orjson.loads(await request.read())["inputs"][0]
        seen.extend(map(b64decode, tensor["data"]))
        output = {
            "name": "o",
            "shape": [len(tensor["data"])],
            "datatype": "INT64",
            "data": [1] * len(tensor["data"]),
        }
        return web.Response(body=orjson.dumps({"outputs": [output]}))

    model.before = take
    place.read("docs/", {"format": "files"})
    column = {"columns": ["content"], "datatype": "BYTES", "parameters": {"content_type": "base64"}}
    file.contract |= {"tensors": {"inputs": [column]}, "passThroughColumns": ["name", "size"]}
    await file.success(INFERRUN_RECORD_BYTES="2048")
    assert sorted(seen) == sorted([b"plain", b"hello", KEPT])
    sizes = {line["name"]: line["size"] for line in file.results if not line.get("error")}
    assert sizes == {"a.txt": 5, "b.txt": 5, "c.txt.gz": len(KEPT)}
    failed = {line["name"]: line["error"]["message"] for line in file.errors}
    assert set(failed) == {"d.txt", "e.txt", "f.txt"}
    assert "d.txt is not a complete gzip file" in failed["d.txt"]
    assert "e.txt has more than 2048 bytes" in failed["e.txt"]
    assert "f.txt is stored with Content-Encoding br" in failed["f.txt"]
