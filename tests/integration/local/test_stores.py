"""A bucket as input and output, with the identity of the environment, a Secret's folder, and none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from inferrun.client.errors import RunFailed
from inferrun.local import run
from tests.integration.local.conftest import ROWS, Place
from tests.integration.runner.clouds import clouds
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


@pytest.mark.parametrize(
    "identity",
    [
        ("azure", "accountKey", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("gcs", "credentials.json", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_the_identity_in_other_clouds_is_that_of_the_environment(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: tuple[str, str, str]
) -> None:
    label, key, variable = identity
    with clouds() as found:
        bucket = found.bucket(label)
        bucket.upload(place.data)
        spec = bucket.spec("rows.jsonl")
        del spec["credentialsRef"]
        (tmp_path / key).write_text(bucket.keys[key])
        is_file = label == "gcs"
        monkeypatch.setenv(variable, str(tmp_path / key) if is_file else bucket.keys[key])
        config = place.config(
            storage={
                "input": {label: spec},
                "output": {label: {**spec, "path": "out"}},
            }
        )
        result = run(config, place.run("own"), state=tmp_path / "state")
        predicted = [row["prediction"] for row in result.results()]
    assert predicted == [index + 0.5 for index in range(ROWS)]
