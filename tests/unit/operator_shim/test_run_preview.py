"""A new run does not wait until all runs are listed, and the list remains what decides."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from control.metrics import Metrics
from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import Invalid, PageTooLarge
from inferrun.kube.namespaces import ALL, Namespaces
from inferrun.kube.objects import Object, Resource
from inferrun.run_defaults import Defaults
from operator_shim.run_loop import RunLoop
from operator_shim.run_watch import RunWatch
from tests.unit.operator_shim.observer.fakes import settle
from tests.unit.operator_shim.test_run_loop import (
    NotedSchedules,
    NotedWorkflows,
    StoredRuns,
    stored,
)

SELECTED, LISTED = "10", "20"
"""The versions of the answers: those of a selection, and the whole list."""


class SlowServer(KubeClient):
    """Selects at once, lists when the test says so, and sends what it is told to those who watch
    from either version."""

    def __init__(self, *runs: Object) -> None:
        self.runs = list(runs)
        self.answers = asyncio.Event()
        self.can_select = True
        self.is_crowded = ""
        """A namespace whose unfinished runs are too many for an answer."""
        self.events: dict[str, asyncio.Queue[tuple[str, Object]]] = {
            version: asyncio.Queue() for version in (SELECTED, LISTED)
        }
        self.watched: list[str] = []

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        if "fieldSelector" not in params:
            await self.answers.wait()
            return Page(version=LISTED, items=list(self.runs))
        if not self.can_select:
            raise Invalid("field label not supported: status.phase", status=400)
        if namespace is not None and namespace == self.is_crowded:
            raise PageTooLarge("a page has too many bytes")
        return Page(version=SELECTED, items=list(self._selected(namespace, **params)))

    def _selected(self, namespace: str | None, *, fieldSelector: str, **_: str) -> Iterator[Object]:  # noqa: N803 -- as the API server calls it
        for run in self.runs:
            phase, terms = run["status"].get("phase", ""), fieldSelector.split(",")
            is_here = namespace in (None, run["metadata"]["namespace"])
            wanted = [term.rpartition("=")[2] for term in terms]
            if is_here and (phase not in wanted if "!=" in fieldSelector else wanted == [phase]):
                yield run

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        version: str,
        silence_seconds: float = 0,
        **params: str,
    ) -> AsyncIterator[tuple[str, Object]]:
        self.watched.append(version)
        try:
            while True:
                yield await self.events[version].get()
        finally:
            self.watched.remove(version)

    async def send(self, kind: str, run: Object, *, version: str = SELECTED) -> None:
        self.events[version].put_nowait((kind, run))
        await settle()


def run_at(version: int, name: str, *, reason: str = "", namespace: str = "team") -> Object:
    run = stored((namespace, name), name, reason=reason)
    run["metadata"]["resourceVersion"] = str(version)
    return run


class Restart:
    """A watch of runs and the loop, as they start beside that server."""

    def __init__(self) -> None:
        self.server = SlowServer()
        self.limit = 0
        self.workflows = NotedWorkflows()
        self.changes: list[tuple[str, bool]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, runs: Iterable[Object], *, namespaces: Namespaces = ALL) -> list[str]:
        """Begin to list; the calls of workflows that follow."""
        self.server.runs = list(runs)
        defaults = Defaults(max_active_runs_per_namespace=self.limit)
        self.watch = RunWatch(self.server, namespaces=namespaces, defaults=lambda: defaults)
        loop = RunLoop(
            StoredRuns(),
            self.watch,
            workflows=self.workflows,
            schedules=NotedSchedules(self.workflows),
            defaults=lambda: defaults,
            workers=2,
            metrics=Metrics(),
        )
        self.watch.inspect(
            lambda before, run: self.changes.append((run["metadata"]["uid"], before is not None))
        )
        self._tasks = [asyncio.create_task(part.run()) for part in (self.watch, loop)]
        await settle()
        return self.workflows.taken()

    async def list_all(self, *runs: Object) -> None:
        """The answer to the list."""
        self.server.runs = list(runs)
        self.server.answers.set()
        await settle()

    def shows(self, name: str, *, namespace: str = "team") -> str | None:
        """The version of the run that is cached."""
        run = self.watch.get(namespace, name)
        return run["metadata"]["resourceVersion"] if run is not None else None

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def restart() -> AsyncIterator[Restart]:
    made = Restart()
    yield made
    await made.stop()


OLD = run_at(1, "old", reason="JobCreated")


async def test_a_run_created_before_the_restart_starts_before_all_runs_are_listed(
    restart: Restart,
) -> None:
    assert await restart.start([OLD, run_at(2, "new")]) == ["ensure new"]
    assert not restart.watch.is_synced
    assert restart.shows("old") is None


async def test_a_run_created_while_all_are_listed_starts_and_its_changes_are_seen(
    restart: Restart,
) -> None:
    assert await restart.start([OLD]) == []
    await restart.server.send("ADDED", run_at(11, "new"))
    assert restart.workflows.taken() == ["ensure new"]
    await restart.server.send("MODIFIED", run_at(12, "new", reason="JobCreated"))
    await restart.server.send("MODIFIED", run_at(13, "old", reason="JobCreated"))
    assert (restart.shows("new"), restart.shows("old")) == ("12", None)
    assert restart.changes == [("new", True)], "metrics count the change, and no creation"


async def test_a_new_run_is_started_once_however_often_it_is_shown(restart: Restart) -> None:
    new, later = run_at(2, "new"), run_at(12, "new", reason="JobCreated")
    assert await restart.start([OLD, new]) == ["ensure new"]
    await restart.server.send("MODIFIED", later)
    await restart.list_all(OLD, new)
    await restart.server.send("MODIFIED", later, version=LISTED)
    assert "ensure new" not in restart.workflows.taken()
    assert restart.shows("new") == "12", "the list is older"


async def test_the_preview_ends_with_the_list(restart: Restart) -> None:
    await restart.start([OLD])
    assert restart.server.watched == [SELECTED]
    await restart.list_all(OLD)
    assert restart.server.watched == [LISTED]
    late = run_at(11, "late")
    restart.watch.preview(late)
    assert restart.shows("late") is None, "it may have been deleted meanwhile"


async def test_a_new_run_that_is_gone_before_all_are_listed_is_ended(restart: Restart) -> None:
    await restart.start([OLD, run_at(2, "gone"), run_at(3, "kept")])
    await restart.server.send("DELETED", run_at(19, "gone"))
    await restart.server.send("ADDED", run_at(21, "gone-later"))
    assert "ensure gone-later" in restart.workflows.taken()
    await restart.list_all(OLD, run_at(3, "kept"))
    assert restart.shows("gone") is None
    assert "cancel gone" in restart.workflows.taken()
    assert (restart.shows("kept"), restart.shows("gone-later")) == ("3", "21")
    await restart.server.send("DELETED", run_at(22, "gone-later"), version=LISTED)
    assert "cancel gone-later" in restart.workflows.taken()


async def test_a_new_run_waits_for_room_that_active_runs_take_which_are_not_listed_yet(
    restart: Restart,
) -> None:
    restart.limit = 1
    runs = [OLD, run_at(2, "new"), run_at(3, "other", namespace="other")]
    calls = await restart.start(runs)
    assert "ensure other" in calls
    assert "ensure new" not in calls
    await restart.server.send("ADDED", run_at(11, "newer"))
    assert "ensure newer" not in restart.workflows.taken()


async def test_a_new_run_waits_for_the_list_if_the_room_in_its_namespace_is_not_known(
    restart: Restart,
) -> None:
    restart.limit = 1
    restart.server.is_crowded = "team"
    runs = [run_at(2, "new"), run_at(3, "other", namespace="other")]
    assert await restart.start(runs) == ["ensure other"]
    await restart.list_all(*runs)
    assert restart.workflows.taken() == ["ensure new"]


async def test_a_new_run_that_began_to_wait_before_all_are_listed_looks_once_more(
    restart: Restart,
) -> None:
    """What it waits for may have come before its status was seen."""
    assert await restart.start([run_at(2, "new")]) == ["ensure new"]
    await restart.server.send("MODIFIED", run_at(12, "new", reason="ConfigNotFound"))
    assert restart.workflows.taken() == ["recheck new"]


async def test_a_definition_without_the_field_leaves_it_to_the_list(restart: Restart) -> None:
    restart.server.can_select = False
    assert await restart.start([OLD, run_at(2, "new")]) == []
    assert restart.server.watched == []
    await restart.list_all(OLD, run_at(2, "new"))
    assert "ensure new" in restart.workflows.taken()


async def test_each_namespace_that_is_served_is_looked_at(restart: Restart) -> None:
    runs = [
        run_at(2, "new"),
        run_at(3, "new-too", namespace="other"),
        run_at(4, "x", namespace="c"),
    ]
    assert await restart.start(runs, namespaces=Namespaces(("team", "other"))) == [
        "ensure new",
        "ensure new-too",
    ]
