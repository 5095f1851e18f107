"""A bucket behind a latency: what is downloaded, how often, and how much of it at a time."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from inferrun.plugins import InputError, Limits
from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.bucket import open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.s3 import s3_cloud
from tests.integration.runner.distant_server import at_a_distance
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import credentials, s3_server

OBJECTS = 200


async def test_many_small_objects_are_read_once_and_many_at_a_time(
    file: Machine, tmp_path: Path
) -> None:
    async with (
        s3_server(tmp_path / "s3") as server,
        at_a_distance(server.url, seconds=0.03) as distance,
    ):
        (server.bucket / "in").mkdir()
        for number in range(OBJECTS):
            (server.bucket / "in" / f"{number:04}.jsonl").write_text(f"[{number}, 1]\n" * 5)
        credentials(file.folder / "endpoints" / "input")
        file.contract["input"] = {"s3": replace(server, url=distance.url).spec("in/")}
        await file.success(f"{5 * OBJECTS} of {5 * OBJECTS} records predicted")
        assert distance.reads_below("/records/in/") == OBJECTS
        assert distance.most_in_flight >= 16


async def test_a_large_object_is_downloaded_once(file: Machine, tmp_path: Path) -> None:
    async with (
        s3_server(tmp_path / "s3") as server,
        at_a_distance(server.url, seconds=0) as distance,
    ):
        content = (b"[1.5" + b", 2.5" * 1000 + b"]\n") * 2000
        (server.bucket / "rows.jsonl").write_bytes(content)
        credentials(file.folder / "endpoints" / "input")
        file.contract["input"] = {"s3": replace(server, url=distance.url).spec("rows.jsonl")}
        file.contract["dryRun"] = True
        # in this process, its end would wait for downloads, and they for the proxy
        ended = await file.process()
        assert ended.code == 0, ended.message
        first = distance.downloaded
        assert first < len(content)
        del file.contract["dryRun"]
        ended = await file.process(INFERRUN_BATCH_ROWS="1000")
        assert (ended.code, ended.message) == (0, "2000 of 2000 records predicted")
        assert len(content) <= distance.downloaded - first < 1.02 * len(content)


async def test_a_part_of_an_object_that_was_replaced_is_not_read(tmp_path: Path) -> None:
    async with s3_server(tmp_path / "s3") as server:
        credentials(tmp_path)
        spec = S3Storage.model_validate(server.spec("rows.jsonl"))
        limits = Limits(allowed_addresses="127.0.0.0/8", retry_seconds=0)
        async with open_bucket(
            spec, s3_cloud, Mount(tmp_path, "input.s3", InputError), limits
        ) as bucket:
            await asyncio.to_thread(bucket.put, "rows.jsonl", b"first")
            found = await asyncio.to_thread(bucket.head, "rows.jsonl")
            assert found
            assert found.tag
            read = partial(bucket.read_range, "rows.jsonl", 1, 3, tag=found.tag)
            assert (await asyncio.to_thread(read)).content == b"irs"
            await asyncio.to_thread(bucket.put, "rows.jsonl", b"other")
            with pytest.raises(InputError, match="changed while it was being read"):
                await asyncio.to_thread(read)
