"""Events are created once, however often the step is repeated that creates them."""

import pytest

from control.cluster.events import EventRecorder
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Overloaded
from inferrun.kube.objects import Object, Resource
from inferrun.reasons import Reason
from tests.unit.objects import RUN


class CountingServer(KubeClient):
    """Counts what is created, and fails as told."""

    def __init__(self, *failures: Exception) -> None:
        self.names: list[str] = []
        self._failures = list(failures)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        self.names.append(body["metadata"]["name"])
        if self._failures:
            raise self._failures.pop(0)
        return body


async def record(recorder: EventRecorder, message: str) -> None:
    await recorder.record(RUN, reason=Reason.SUCCEEDED, message=message, is_warning=False)


async def test_the_same_event_has_the_same_name_and_exists_already() -> None:
    server = CountingServer()
    recorder = EventRecorder(server, reporter="tests")
    for message in ("one", "two"):
        await record(recorder, message)
    again = CountingServer(AlreadyExists("there"))
    await record(EventRecorder(again, reporter="another"), "one")
    assert server.names[0] != server.names[1]
    assert again.names == server.names[:1]


async def test_an_event_that_could_not_be_created_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        await record(EventRecorder(CountingServer(Overloaded("busy")), reporter="tests"), "one")
    assert [log.message for log in caplog.records] == ["an Event was not created"]
