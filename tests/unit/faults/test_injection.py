"""Faults are injected into every write of a client of the API server."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from kubernetes.aio import client

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, RUNS
from tests.faults.injection import Errors, FaultyKubeClient, Injector

T = TypeVar("T")


class Recorder(Injector):
    """Notes the calls and makes none."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def perform(self, effect: Callable[[], Awaitable[T]], *, target: str, does: str, errors: Errors) -> T:  # noqa: ARG002
        self.calls.append((target, does))
        answer = b'{"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}'
        return cast("T", answer)


async def test_every_write_can_be_disturbed() -> None:
    recorder = Recorder()
    plain = KubeClient(client.Configuration(host="http://localhost"))
    faulty = FaultyKubeClient(plain, recorder)
    try:
        await faulty.create(JOBS, "a", {"metadata": {"name": "new"}})
        await faulty.patch(JOBS, "a", "job", {})
        await faulty.patch(RUNS, "a", "run", {}, sub="status")
        await faulty.delete(JOBS, "a", "job", uid="u")
    finally:
        await plain.close()
        await faulty.close()
    assert recorder.calls == [
        ("new", "create jobs"),
        ("job", "patch jobs"),
        ("run", "patch inferenceruns/status"),
        ("job", "delete jobs"),
    ]
