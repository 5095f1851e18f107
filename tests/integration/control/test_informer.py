"""A local copy of a collection follows a real API server, whatever happens to the connection."""

import asyncio
from collections.abc import AsyncIterator
from secrets import token_hex

import httpx
import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Informer, Key
from inferrun.kube.objects import CONFIG_MAPS, Object
from tests.integration.control.proxy import Json, Proxy, until
from tests.integration.crds.server import call


class Followed:
    """A collection of its own, changed past the proxy, and an informer of it."""

    def __init__(self, api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str) -> None:
        self.label = token_hex(4)
        self.changes: list[tuple[str, str]] = []
        self.proxy = proxy
        self._direct = direct
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.informer = Informer(
            api, CONFIG_MAPS, namespace=namespace, selector=f"followed={self.label}", listener=self._changed
        )

    def _changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        kind = "added" if before is None else "deleted" if after is None else "changed"
        self.changes.append((kind, key[1]))

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.informer.keys()}  # noqa: SIM118 -- not a dict

    def create(self, name: str) -> Json:
        body = {"metadata": {"name": f"{name}-{self.label}", "labels": {"followed": self.label}}}
        return call(self._direct, "POST", self._path, body)

    def change(self, made: Json) -> Json:
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"{self._path}/{made['metadata']['name']}"
        return call(self._direct, "PATCH", path, {"data": {"a": token_hex(4)}}, headers=headers)

    def delete(self, made: Json) -> None:
        call(self._direct, "DELETE", f"{self._path}/{made['metadata']['name']}")

    async def sees(self, *names: str) -> None:
        wanted = {f"{name}-{self.label}" for name in names}
        await until(lambda: self.names == wanted, what=f"the copy to hold {sorted(wanted)}")

    async def watches(self, *, times: int = 1) -> None:
        await until(
            lambda: len(self.proxy.watches) >= times and self.proxy.open_watches >= 1, what=f"watch number {times}"
        )


@pytest.fixture
def followed(api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str) -> Followed:
    """A collection of its own; nothing follows it yet."""
    return Followed(api, proxy, direct, namespace)


@pytest.fixture
async def running(followed: Followed) -> AsyncIterator[Followed]:
    """A collection that holds `first`, followed."""
    followed.create("first")
    task = asyncio.create_task(followed.informer.run())
    await asyncio.wait_for(followed.informer.synced.wait(), 30)
    await followed.watches()
    yield followed
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_holds_what_was_there_and_what_comes_goes_and_changes(running: Followed) -> None:
    await running.sees("first")
    made = running.create("second")
    await running.sees("first", "second")
    changed = running.change(made)
    key = changed["metadata"]["namespace"], changed["metadata"]["name"]
    await until(lambda: running.informer.get(*key) == changed, what="the change")
    running.delete(made)
    await running.sees("first")
    name = made["metadata"]["name"]
    assert [kind for kind, of in running.changes if of == name] == ["added", "changed", "deleted"]


async def test_it_asks_for_bookmarks_and_only_for_what_it_selects(running: Followed) -> None:
    [watch] = running.proxy.watches
    assert watch.query["allowWatchBookmarks"] == "true"
    assert watch.query["labelSelector"] == f"followed={running.label}"
    assert int(watch.query["timeoutSeconds"]) > 0


async def test_after_a_bookmark_it_goes_on_from_there_and_holds_no_object_for_it(running: Followed) -> None:
    """A quiet collection's own position grows old; the bookmark's is the one to go on from."""
    latest = running.create("second")["metadata"]["resourceVersion"]
    await running.sees("first", "second")
    later = str(int(latest) + 1)
    await running.proxy.say({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": later}}})
    await running.proxy.end_watches()
    await running.watches(times=2)
    assert running.proxy.watches[-1].query["resourceVersion"] == later
    await running.sees("first", "second")


async def test_a_watch_that_the_server_ends_goes_on_from_the_last_position(running: Followed) -> None:
    bookmarked = running.create("second")["metadata"]["resourceVersion"]
    await running.sees("first", "second")
    lists = len(running.proxy.sent("GET")) - len(running.proxy.watches)
    await running.proxy.end_watches()
    await running.watches(times=2)
    assert running.proxy.watches[-1].query["resourceVersion"] == bookmarked
    assert len(running.proxy.sent("GET")) - len(running.proxy.watches) == lists
    running.create("third")
    await running.sees("first", "second", "third")


async def test_a_position_that_is_too_old_leads_to_a_new_list(running: Followed) -> None:
    await running.proxy.say({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    await running.watches(times=2)
    running.create("second")
    await running.sees("first", "second")


async def test_what_was_deleted_while_nothing_was_heard_is_noticed(running: Followed) -> None:
    made = running.create("second")
    await running.sees("first", "second")
    running.proxy.is_down = True
    running.proxy.cut()
    running.delete(made)
    running.create("third")
    running.proxy.is_down = False
    await running.sees("first", "third")
    assert ("deleted", made["metadata"]["name"]) in running.changes


async def test_an_object_that_was_made_anew_while_nothing_was_heard_is_told_as_a_change_to_another_uid(
    running: Followed,
) -> None:
    made = running.create("second")
    await running.sees("first", "second")
    running.proxy.is_down = True
    running.proxy.cut()
    running.delete(made)
    again = running.create("second")
    running.proxy.is_down = False
    key = again["metadata"]["namespace"], again["metadata"]["name"]

    def is_new() -> bool:
        held = running.informer.get(*key)
        return held is not None and held["metadata"]["uid"] == again["metadata"]["uid"]

    await until(is_new, what="the new object")


async def test_a_new_list_tells_nothing_about_what_is_as_it_was(running: Followed) -> None:
    await running.sees("first")
    before = list(running.changes)
    running.proxy.cut()
    await running.watches(times=2)
    assert running.changes == before


async def test_a_server_that_is_away_at_first_is_waited_for(followed: Followed) -> None:
    followed.create("first")
    followed.proxy.is_down = True
    task = asyncio.create_task(followed.informer.run())
    await until(lambda: len(followed.proxy.requests) >= 3, what="three tries")
    assert not followed.informer.synced.is_set()
    followed.proxy.is_down = False
    await followed.sees("first")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_rubbish_in_a_watch_does_not_end_it(running: Followed) -> None:
    await running.proxy.say_text("this is no JSON\n")
    await running.watches(times=2)
    running.create("second")
    await running.sees("first", "second")
