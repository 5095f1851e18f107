"""Objects of megabytes that users add to a Job: the worker reads little of them, and keeps less."""

import json
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest

from activities.watching.job_objects import list_events, list_pods_and_orphans
from inferrun.kube.client import MAX_ITEMS_BYTES, KubeClient
from inferrun.kube.objects import EVENTS, PODS, Object

pytestmark = pytest.mark.thorough

LABELS = {f"{number:06}": "" for number in range(50_000)}
"""As many small members as fit into an object, together with the managed fields that the API server derives from them."""

LARGE = {"note": "x" * 250_000}


@pytest.fixture
async def uid(api: KubeClient, namespace: str) -> AsyncIterator[str]:
    """The UID of a Job that does not exist; the Pods with its label are deleted afterwards."""
    made = token_hex(8)
    yield made
    async for pod in api.items(
        PODS, namespace, page_size=10, labelSelector=f"batch.kubernetes.io/controller-uid={made}"
    ):
        await api.delete(PODS, namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace=0)


async def create_event(api: KubeClient, namespace: str, uid: str, *, labels: Object) -> None:
    subject = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "pod", "uid": uid}
    metadata = {"name": f"event-{token_hex(4)}", "namespace": namespace, "labels": labels}
    await api.create(
        EVENTS, namespace, {"metadata": metadata, "involvedObject": subject, "reason": "Failed", "message": "no"}
    )


async def test_large_events_of_users_are_not_read(api: KubeClient, namespace: str, uid: str) -> None:
    await create_event(api, namespace, uid, labels={"a": "b"})
    [event] = await list_events(api, namespace, {"metadata": {"uid": uid}})
    assert (event["reason"], event["message"]) == ("Failed", "no")
    await create_event(api, namespace, uid, labels=LABELS)
    assert await list_events(api, namespace, {"metadata": {"uid": uid}}) == []


async def test_of_large_pods_of_users_little_is_kept(api: KubeClient, namespace: str, uid: str) -> None:
    labels = {"batch.kubernetes.io/controller-uid": uid}
    spec = {"nodeName": "none", "containers": [{"name": "a", "image": "a"}]}
    for number in range(20):
        metadata = {"name": f"planted-{number}-{token_hex(4)}", "labels": labels, "annotations": LARGE}
        await api.create(PODS, namespace, {"metadata": metadata, "spec": spec})
    pods, orphans = await list_pods_and_orphans(api, namespace, uid)
    assert (len(pods), len(orphans)) == (0, 20)
    assert len(json.dumps(orphans)) < 40_000 < MAX_ITEMS_BYTES
