"""Objects that are too large to be parsed do not harm the worker that reads them for a launch."""

import json
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from activities.model_reader import ModelReader
from inferrun.client.kserve_models import OTHER_RESOURCES
from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import read_object
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Object, Resource
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import WantedService
from inferrun.reasons import Reason
from inferrun.timestamps import rfc3339
from tests.unit.inferrun.kserve.stored import (
    Json,
    edited,
    merged,
    port,
    service,
    standard,
    with_model,
)

NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)
IRIS = WantedService(kind="InferenceService", namespace="kserve-test", name="sklearn-iris")
RUNTIME = {
    "metadata": {"name": "mine", "resourceVersion": "1"},
    "spec": {"protocolVersions": ["v1", "v2"]},
}
DENSE: Json = {"tolerations": [{}] * 400_000}
"""As small in JSON, and as large in memory, as a field with a schema can be."""


class Server(KubeClient):
    """Serves InferenceServices and the objects it was given, by plural, as the client decodes
    them."""

    def __init__(self, time: datetime, **objects: Json) -> None:
        self._time = time
        self._raw = {plural: orjson.dumps(item) for plural, item in objects.items()}

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if resource.plural not in self._raw:
            raise NotFound("there is none", status=404)
        return read_object(self._raw[resource.plural], resource)

    def now(self) -> datetime:
        return self._time

    async def text(self, path: str) -> str:
        if path.endswith("serving.kserve.io"):
            return json.dumps({"versions": [{"version": "v1beta1"}]})
        return json.dumps({"resources": [{"name": "inferenceservices"}]})


def of_runtime(**changes: Json) -> Json:
    """A ready InferenceService whose protocol is that of a runtime of its namespace."""
    return merged(with_model(standard(status={"servingRuntimeName": "mine"})), changes)


async def find(**objects: Json) -> str:
    ports = service(port(80, target=8080))
    address = await ModelReader(Server(NOW, services=ports, **objects)).find(
        IRIS, namespace=IRIS.namespace
    )
    return address.protocol


@pytest.mark.parametrize("years", [-10, 10])
async def test_the_age_of_an_edit_is_measured_by_the_api_servers_clock_however_wrong_the_workers_is(
    years: int,
) -> None:
    """An observedGeneration that the edit did not reach is ignored after a minute."""
    time = NOW.replace(year=NOW.year + years)
    item = merged(standard(), {"metadata": {"generation": 2, "resourceVersion": "1"}})
    for seconds, is_settled in ((30, False), (61, True)):
        at = edited(item, rfc3339(time - timedelta(seconds=seconds)))
        server = Server(time, inferenceservices=at, services=service(port(80, target=8080)))
        finding = ModelReader(server).find(IRIS, namespace=IRIS.namespace)
        if is_settled:
            assert (await finding).generation == 2
        else:
            with pytest.raises(LaunchBlocked, match="was edited"):
                await finding


async def test_the_protocol_is_that_of_the_runtime() -> None:
    assert await find(inferenceservices=of_runtime(), servingruntimes=RUNTIME) == "v2"


async def test_a_runtime_that_is_too_large_counts_as_one_that_must_not_be_read() -> None:
    assert (
        await find(inferenceservices=of_runtime(), servingruntimes=merged(RUNTIME, {"spec": DENSE}))
        == "v1"
    )


async def test_an_object_that_is_too_large_is_waited_for() -> None:
    large = merged(of_runtime(), {"metadata": {"resourceVersion": "1"}, "spec": DENSE})
    with pytest.raises(LaunchBlocked) as blocked:
        await find(inferenceservices=large)
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.MODEL_NOT_READY, True)
    assert "InferenceService kserve-test/sklearn-iris is not read: it has " in blocked.value.message
    assert "reduce it and the run starts automatically" in blocked.value.message


def test_no_object_that_users_write_is_parsed_whatever_its_size() -> None:
    assert [
        plural for plural, resource in OTHER_RESOURCES.items() if not resource.is_free_form
    ] == []
