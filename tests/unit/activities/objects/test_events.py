"""Events are created once, however often the step is repeated that creates them."""

import pytest

from activities.objects import events
from activities.objects.events import EventRecorder
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

    async def create(self, resource: Resource, namespace: str | None, body: Object, **params: str) -> Object:  # noqa: ARG002
        self.names.append(body["metadata"]["name"])
        if self._failures:
            raise self._failures.pop(0)
        return body


async def record(recorder: EventRecorder, message: str) -> None:
    await recorder.record(RUN, reason=Reason.SUCCEEDED, message=message, is_warning=False)


async def test_an_event_is_sent_once() -> None:
    server = CountingServer()
    recorder = EventRecorder(server, reporter="tests")
    for message in ("one", "one", "two", "one"):
        await record(recorder, message)
    assert len(server.names) == len(set(server.names)) == 2


async def test_an_event_that_exists_is_not_sent_again_and_one_that_failed_is() -> None:
    server = CountingServer(Overloaded("busy"), AlreadyExists("there"))
    recorder = EventRecorder(server, reporter="tests")
    for _ in range(3):
        await record(recorder, "one")
    assert len(server.names) == 2


async def test_an_event_that_could_not_be_created_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        await record(EventRecorder(CountingServer(Overloaded("busy")), reporter="tests"), "one")
    assert [log.message for log in caplog.records] == ["an Event was not created"]


async def test_a_process_remembers_a_bounded_number_of_events() -> None:
    server = CountingServer()
    recorder = EventRecorder(server, reporter="tests")
    for number in range(events.REMEMBERED + 1):
        await record(recorder, f"{number}")
    await record(recorder, f"{events.REMEMBERED}")
    assert len(server.names) == events.REMEMBERED + 1
    await record(recorder, "0")
    assert len(server.names) == events.REMEMBERED + 2
