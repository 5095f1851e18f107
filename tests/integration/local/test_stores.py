"""A bucket as input and output, with the identity of the environment, a Secret's folder, and none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from inferrun.client.errors import RunFailed
from inferrun.local import run
from tests.integration.local.conftest import ROWS, Place
from tests.integration.runner.s3_server import (
    ACCESS_KEY,
    SECRET_KEY,
    credentials,
    s3_server,
)


async def test_a_bucket_is_accessed_as_the_user_is(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with s3_server(tmp_path / "buckets") as server:
        (server.bucket / "rows.jsonl").write_bytes((place.data / "rows.jsonl").read_bytes())

        def storage(**secret: Any) -> dict[str, Any]:
            spec = server.spec("rows.jsonl") | {"credentialsRef": None} | secret
            given = {key: value for key, value in spec.items() if value is not None}
            return {"input": {"s3": given}, "output": {"s3": {**given, "path": "out"}}}

        def execute(name: str, storage: dict[str, Any], **options: Any) -> list[float]:
            config = place.config(storage=storage)
            result = run(config, place.run(name), state=tmp_path / "state", **options)
            return [row["prediction"] for row in result.results()]

        expected = [index + 0.5 for index in range(ROWS)]
        own = {"credentialsRef": {"name": "own"}}
        credentials(tmp_path / "secret")
        keys = {one.name: one.read_bytes() for one in (tmp_path / "secret").iterdir()}
        found = await asyncio.to_thread(execute, "secret", storage(**own), secrets={"own": keys})
        assert found == expected
        with pytest.raises(RunFailed, match=r"credentialsRef"):
            await asyncio.to_thread(execute, "nobody", storage())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        assert await asyncio.to_thread(execute, "environment", storage()) == expected
