"""Whether servers of objects create a key once: a thousand races of two writers each, and what the
runner's check says."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from campaigns.interop.s3_servers import SERVERS, Races, object_server, race
from inferrun.plugins import Limits, OutputError
from inferrun.stores import AzureStorage, GcsStorage, S3Storage
from inferrun_runner.stores.objects.azure import azure_cloud
from inferrun_runner.stores.objects.bucket import Bucket, open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.gcs import gcs_cloud
from inferrun_runner.stores.objects.s3 import s3_cloud
from tests.integration.runner.clouds import clouds

KEYS: Final = int(os.environ.get("INFERRUN_RACES", "1000"))

VERDICTS: Final = {
    "seaweedfs": "atomic",
    "minio": "atomic",
    "rclone": "atomic",
    "versitygw": "atomic",
    "localbucket": "atomic",
    "garage": "ignored",
    "s3proxy": "ignored",
    "s3mock": "not atomic",
    "azure": "atomic",
    "gcs": "atomic",
}
_EMULATORS: Final = ("azure", "gcs")


@contextmanager
# Any: a storage object and its members
def place(name: str, folder: Path, secret: Path) -> Iterator[dict[str, Any]]:
    """A storage object of a server that is started, whose credentials are mounted."""
    if name in _EMULATORS:  # Azurite and fake-gcs-server
        with clouds() as started:
            bucket = started.bucket(name)
            bucket.mount(secret)
            yield bucket.spec("out")
        return
    if not SERVERS[name].is_available:
        pytest.skip(f"{SERVERS[name].needs} is not on PATH")
    with object_server(name, folder) as server:
        server.mount(secret)
        yield server.spec("out")


def opened(
    name: str, given: dict[str, Any], mount: Mount, limits: Limits
) -> AbstractAsyncContextManager[Bucket]:  # Any: as above
    if name == "azure":
        return open_bucket(AzureStorage.model_validate(given), azure_cloud, mount, limits)
    if name == "gcs":
        return open_bucket(GcsStorage.model_validate(given), gcs_cloud, mount, limits)
    return open_bucket(S3Storage.model_validate(given), s3_cloud, mount, limits)


@pytest.mark.parametrize("name", VERDICTS)
async def test_what_a_server_makes_of_two_writers_and_what_the_check_says(
    name: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    with place(name, tmp_path / "server", secret) as given:
        mount = Mount(secret, "output", OutputError)
        limits = Limits(allowed_addresses="127.0.0.1", retry_seconds=30)
        async with AsyncExitStack() as stack:
            opening = [opened(name, given, mount, limits) for _ in range(2)]
            one, other = [await stack.enter_async_context(bucket) for bucket in opening]
            found: Races = await asyncio.to_thread(race, (one, other), "races", keys=KEYS)
            try:
                await asyncio.to_thread(one.check, "out")
                refusal = ""
            except OutputError as error:
                refusal = str(error)
    sys.stdout.write(
        f"| {name} | {found.keys} | {found.both_won} | {found.none_won} | {found.verdict} |\n"
    )
    assert (found.verdict, found.none_won) == (VERDICTS[name], 0)
    assert bool(refusal) == (found.both_won > 0), refusal
