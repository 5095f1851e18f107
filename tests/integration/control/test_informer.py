"""A local cache of a collection follows a real API server through every kind of interruption."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any

import httpx
import pytest

from control.informer import Informer, Key
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, Object
from tests.integration.control.proxy import Json, Proxy, until
from tests.integration.crds.server import call


class Followed:
    """A collection of its own, changed directly on the server, and an informer that follows it
    through the proxy."""

    def __init__(
        self, api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str, **options: Any
    ) -> None:  # Any: options of the informer
        self.label = token_hex(4)
        self.changes: list[tuple[str, str]] = []
        self.uids: list[tuple[str, str]] = []
        self.proxy = proxy
        self._direct = direct
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.informer = Informer(
            api,
            CONFIG_MAPS,
            namespace=namespace,
            selector=f"followed={self.label}",
            listener=self._changed,
            **options,
        )

    def _changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        kind = "added" if before is None else "deleted" if after is None else "changed"
        self.changes.append((kind, key[1]))
        self.uids.append((kind, (after or before or {})["metadata"]["uid"]))

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.informer.keys()}  # noqa: SIM118 -- not a dict

    def of(self, made: Json) -> list[str]:
        """The kinds of changes reported for that name."""
        return [kind for kind, name in self.changes if name == made["metadata"]["name"]]

    def held(self, made: Json) -> Object | None:
        return self.informer.get(made["metadata"]["namespace"], made["metadata"]["name"])

    def create(self, name: str, **metadata: Any) -> Json:
        labels = {"followed": self.label}
        body = {"metadata": {"name": f"{name}-{self.label}", "labels": labels, **metadata}}
        return call(self._direct, "POST", self._path, body)

    def change(self, made: Json) -> Json:
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"{self._path}/{made['metadata']['name']}"
        return call(self._direct, "PATCH", path, {"data": {"a": token_hex(4)}}, headers=headers)

    def delete(self, made: Json) -> None:
        call(self._direct, "DELETE", f"{self._path}/{made['metadata']['name']}")

    def listed(self) -> Json:
        """The list as the server returns it now."""
        return call(
            self._direct, "GET", self._path, params={"labelSelector": f"followed={self.label}"}
        )

    async def sees(self, *names: str) -> None:
        wanted = {f"{name}-{self.label}" for name in names}
        await until(lambda: self.names == wanted, what=f"the cache to hold {sorted(wanted)}")

    async def watches(self, *, times: int = 1) -> None:
        await until(
            lambda: len(self.proxy.watches) >= times and self.proxy.is_watched,
            what=f"watch number {times}",
        )

    async def expire(self) -> None:
        """End the watch with 410, so that the collection is listed again."""
        await self.proxy.say(
            {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
        )


@asynccontextmanager
async def running_informer(followed: Followed) -> AsyncIterator[Followed]:
    """Follow the collection while the block lasts."""
    task = asyncio.create_task(followed.informer.run())
    try:
        await asyncio.wait_for(followed.informer.synced.wait(), 30)
        await followed.watches()
        yield followed
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def followed(api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str) -> Followed:
    """A collection of its own; nothing follows it yet."""
    return Followed(api, proxy, direct, namespace)


@pytest.fixture
async def running(followed: Followed) -> AsyncIterator[Followed]:
    """A collection that holds `first`, being followed."""
    followed.create("first")
    async with running_informer(followed):
        yield followed


async def test_existing_objects_and_every_change_reach_the_cache(running: Followed) -> None:
    await running.sees("first")
    made = running.create("second")
    await running.sees("first", "second")
    changed = running.change(made)
    del changed["metadata"]["managedFields"]
    await until(lambda: running.held(made) == changed, what="the change")
    running.delete(made)
    await running.sees("first")
    assert running.of(made) == ["added", "changed", "deleted"]


async def test_a_watch_requests_bookmarks_and_only_selected_objects(running: Followed) -> None:
    [watch] = running.proxy.watches
    assert watch.query["allowWatchBookmarks"] == "true"
    assert watch.query["labelSelector"] == f"followed={running.label}"
    assert int(watch.query["timeoutSeconds"]) > 0


async def test_a_watch_is_resumed_from_the_last_bookmark_which_adds_no_object(
    running: Followed,
) -> None:
    """The last object's version of a quiet collection expires; the bookmark's does not."""
    latest = running.create("second")["metadata"]["resourceVersion"]
    await running.sees("first", "second")
    later = str(int(latest) + 1)
    await running.proxy.say(
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": later}}}
    )
    await running.proxy.end_watches()
    await running.watches(times=2)
    assert running.proxy.watches[-1].query["resourceVersion"] == later
    await running.sees("first", "second")


async def test_a_watch_that_the_server_ends_is_resumed_without_listing_again(
    running: Followed,
) -> None:
    bookmarked = running.create("second")["metadata"]["resourceVersion"]
    await running.sees("first", "second")
    await running.proxy.end_watches()
    await running.watches(times=2)
    assert running.proxy.watches[-1].query["resourceVersion"] == bookmarked
    assert len(running.proxy.lists) == 1
    running.create("third")
    await running.sees("first", "second", "third")


async def test_an_expired_version_causes_a_new_list(running: Followed) -> None:
    await running.expire()
    await running.watches(times=2)
    running.create("second")
    await running.sees("first", "second")
    assert len(running.proxy.lists) == 2


async def test_a_server_that_is_down_at_first_is_retried(followed: Followed) -> None:
    followed.create("first")
    followed.proxy.is_down = True
    task = asyncio.create_task(followed.informer.run())
    await until(lambda: len(followed.proxy.requests) >= 3, what="three tries")
    assert not followed.informer.synced.is_set()
    followed.proxy.is_down = False
    await followed.sees("first")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_broken_watch_is_resumed_and_misses_no_change(running: Followed) -> None:
    second = running.create("second")
    await running.sees("first", "second")
    running.proxy.is_silent = True
    third = running.create("third")
    running.change(second)
    running.delete(third)
    running.proxy.cut()
    running.proxy.is_silent = False
    await until(
        lambda: running.of(third) == ["added", "deleted"], what="the dropped events of the third"
    )
    await until(
        lambda: running.of(second) == ["added", "changed"], what="the dropped event of the second"
    )
    assert len(running.proxy.lists) == 1


async def test_a_silent_watch_is_ended_and_resumed(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    followed = Followed(api, proxy, direct, namespace, silence_seconds=1.0)
    async with running_informer(followed):
        proxy.is_silent = True
        followed.create("first")
        await followed.watches(times=2)
        proxy.is_silent = False
        await followed.sees("first")
    assert len(proxy.lists) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (410, "too old resource version"),
        (504, "Timeout: Too large resource version: 9000, current: 70"),
    ],
)
async def test_a_version_that_is_too_old_or_that_a_restored_server_lacks_causes_a_new_list(
    running: Followed, answer: tuple[int, str]
) -> None:
    running.proxy.answer_watches = [answer]
    await running.proxy.end_watches()
    await running.watches(times=3)
    assert len(running.proxy.lists) == 2


async def test_an_outage_does_not_cause_a_new_list(running: Followed) -> None:
    running.proxy.is_down = True
    running.proxy.cut()
    await until(lambda: len(running.proxy.watches) >= 4, what="three failed attempts")
    made = running.create("second")
    running.proxy.is_down = False
    await running.sees("first", "second")
    assert len(running.proxy.lists) == 1
    assert running.of(made) == ["added"]


async def test_an_older_list_neither_deletes_nor_overwrites_newer_objects(
    running: Followed,
) -> None:
    second = running.create("second")
    await running.sees("first", "second")
    older = running.listed()
    changed = running.change(second)
    third = running.create("third")
    await running.sees("first", "second", "third")
    before = list(running.changes)
    running.proxy.answer_lists = [json.dumps(older).encode()] * 2
    await running.expire()
    await running.watches(times=2)
    assert len(running.proxy.lists) == 4  # the first, two that were discarded, and a current one
    assert running.changes == before
    held = running.held(second)
    assert held is not None
    assert held["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    assert running.held(third) is not None


async def test_an_older_list_is_accepted_once_the_server_stays_there(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    """A server restored from a backup has older versions for good."""
    followed = Followed(api, proxy, direct, namespace, stale_list_seconds=0.3)
    followed.create("first")
    async with running_informer(followed):
        older = followed.listed()
        followed.create("second")
        await followed.sees("first", "second")
        proxy.answer_lists = [json.dumps(older).encode()] * 50
        await followed.expire()
        # The watch from the older version delivers the second object again, perhaps before this is
        # looked at.
        kinds = [kind for kind, *_ in followed.changes]
        assert "deleted" not in kinds
        await until(
            lambda: "deleted" in [kind for kind, *_ in followed.changes],
            what="the older list to be accepted",
        )


async def test_a_list_with_the_same_name_and_another_uid_is_reported_as_gone_and_new(
    running: Followed,
) -> None:
    made = running.create("second")
    await running.sees("first", "second")
    running.proxy.is_silent = True
    running.delete(made)
    again = running.create("second")
    await running.expire()
    await until(lambda: running.of(made) == ["added", "deleted", "added"], what="the three changes")
    assert running.uids[-2:] == [
        ("deleted", made["metadata"]["uid"]),
        ("added", again["metadata"]["uid"]),
    ]


async def test_a_late_deletion_of_the_older_object_does_not_remove_the_newer_one(
    running: Followed,
) -> None:
    made = running.create("second")
    running.delete(made)
    again = running.create("second")
    await until(lambda: running.of(made) == ["added", "deleted", "added"], what="the newer object")
    await running.proxy.say({"type": "DELETED", "object": made})
    running.create("third")
    await running.sees("first", "second", "third")
    held = running.held(again)
    assert held is not None
    assert held["metadata"]["uid"] == again["metadata"]["uid"]


async def test_parameters_of_the_list_are_not_used_for_the_watch(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    followed = Followed(
        api, proxy, direct, namespace, list_params={"fieldSelector": "metadata.name=none"}
    )
    followed.create("first")
    async with running_informer(followed):
        followed.create("second")
        await followed.sees("second")
    [listed], [watch] = proxy.lists, proxy.watches
    assert listed.query["fieldSelector"] == "metadata.name=none"
    assert "fieldSelector" not in watch.query
    assert (
        listed.query["labelSelector"]
        == watch.query["labelSelector"]
        == f"followed={followed.label}"
    )


async def test_objects_are_cached_as_transformed_and_without_unread_metadata(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    def without_labels(item: Object) -> Object:
        del item["metadata"]["labels"]
        return item

    followed = Followed(api, proxy, direct, namespace, transform=without_labels)
    followed.create(
        "first",
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
    )
    async with running_informer(followed):
        followed.create("second")
        await followed.sees("first", "second")
    cached = [item["metadata"] for _, item in followed.informer.items()]
    assert not any(metadata.keys() & {"managedFields", "labels"} for metadata in cached)
    assert [metadata.get("annotations") for metadata in cached] == [{"kept": "yes"}, None]


async def test_an_object_that_the_transform_drops_is_reported_as_gone_once(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    followed = Followed(
        api, proxy, direct, namespace, transform=lambda item: None if item.get("data") else item
    )
    made = followed.create("first")
    async with running_informer(followed):
        followed.change(made)
        await followed.sees()
        followed.change(made)
        followed.delete(made)
        followed.create("second")
        await followed.sees("second")
    assert followed.of(made) == ["added", "deleted"]


DEEP = '{"a":' * 1500 + "1" + "}" * 1500
"""The API server accepts such a value in a config's free-form storage fields (tested)."""


def deep(made: Json) -> str:
    """The object with a value that no JSON decoder of ours can read."""
    return json.dumps({**made, "data": {"a": "DEEP"}}, separators=(",", ":")).replace(
        '"DEEP"', DEEP
    )


async def test_malformed_items_of_a_list_do_not_affect_the_others(running: Followed) -> None:
    second, third = running.create("second"), running.create("third")
    await running.sees("first", "second", "third")
    running.delete(third)
    listed = running.listed()
    malformed: list[object] = [None, 5, "text", {}, {"metadata": {}}]
    running.proxy.answer_lists = [
        json.dumps({**listed, "items": [*malformed, *listed["items"]]}).encode()
    ]
    await running.expire()
    await until(
        lambda: running.informer.skipped == 5, what="the five malformed items to be counted"
    )
    await running.sees("first", "second")
    assert running.of(second) == ["added"]


async def test_an_item_that_is_nested_too_deeply_stays_cached_as_it_was(running: Followed) -> None:
    second = running.create("second")
    await running.sees("first", "second")
    running.proxy.is_silent = True
    third = running.create("third")
    running.proxy.is_silent = False
    listed = running.listed()
    others = [
        item for item in listed["items"] if item["metadata"]["uid"] != second["metadata"]["uid"]
    ]
    body = json.dumps({**listed, "items": ["SECOND", *others]}, separators=(",", ":"))
    running.proxy.answer_lists = [body.replace('"SECOND"', deep(second)).encode()]
    await running.expire()
    await running.sees("first", "second", "third")
    assert (running.of(second), running.of(third)) == (["added"], ["added"])
    assert running.informer.skipped == 1


async def test_an_event_that_is_nested_too_deeply_is_skipped(running: Followed) -> None:
    second = running.create("second")
    await running.sees("first", "second")
    await running.proxy.say_text(f'{{"type":"MODIFIED","object":{deep(second)}}}\n')
    await until(lambda: running.informer.skipped == 1, what="the event to be counted")
    await running.proxy.say_text(f'{{"type":"DELETED","object":{deep(second)}}}\n')
    await running.sees("first")
    assert len(running.proxy.watches) == 1


async def test_a_damaged_event_is_requested_once_more_and_then_skipped(running: Followed) -> None:
    await running.proxy.say_text("not JSON\n")
    await running.watches(times=2)
    await running.proxy.say_text("not JSON\n")
    running.create("second")
    await running.sees("first", "second")
    assert (running.informer.skipped, len(running.proxy.watches), len(running.proxy.lists)) == (
        1,
        2,
        1,
    )


async def test_a_transform_that_fails_for_one_object_leaves_it_as_it_was(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    def fails_for_data(item: Object) -> Object:
        return item if not item.get("data") else item["missing"]

    followed = Followed(api, proxy, direct, namespace, transform=fails_for_data)
    made = followed.create("first")
    async with running_informer(followed):
        followed.change(made)
        followed.create("second")
        await followed.sees("first", "second")
    assert followed.informer.skipped == 1
    assert followed.of(made) == ["added"]


async def test_a_listener_that_fails_for_one_object_does_not_affect_the_others(
    api: KubeClient, proxy: Proxy, direct: httpx.Client, namespace: str
) -> None:
    def fails_for_first(key: Key, before: Object | None, after: Object | None) -> None:
        if key[1].startswith("first"):
            raise KeyError("first")
        heard.append(key[1])

    heard: list[str] = []
    label = f"heard-{token_hex(4)}"
    informer = Informer(
        api, CONFIG_MAPS, namespace=namespace, selector=label, listener=fails_for_first
    )
    task = asyncio.create_task(informer.run())
    for name in ("first", "second"):
        body = {"metadata": {"name": f"{name}-{token_hex(4)}", "labels": {label: "yes"}}}
        await api.create(CONFIG_MAPS, namespace, body)
    await until(lambda: len(heard) == 1, what="the change after the failure")
    assert len(informer.keys()) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
