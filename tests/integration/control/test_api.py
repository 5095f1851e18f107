"""Requests to a real API server, and what it refuses."""

from pathlib import Path
from secrets import token_hex

import pytest

from control.installation import installation_id
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import (
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    Overloaded,
    Unreachable,
)
from inferrun.kube.objects import CONFIG_MAPS, NAMESPACES, PODS
from tests.integration.control.proxy import Proxy, kubeconfig_of


async def test_the_installations_id_is_a_labels_value_of_this_cluster(
    api: KubeClient, namespace: str
) -> None:
    uid = (await api.get(NAMESPACES, None, "kube-system"))["metadata"]["uid"]
    assert await installation_id(api, release="inferrun", namespace=namespace) == f"inferrun.{uid}"
    longest = await installation_id(api, release="r" * 53, namespace=namespace)
    assert len(longest) == 63
    assert longest.endswith(f".{uid}")


@pytest.mark.parametrize(("code", "error"), [(401, Overloaded), (403, Forbidden)])
async def test_a_token_that_is_renewed_is_tried_again_and_one_without_the_right_is_not(
    kubeconfig: Path, tmp_path: Path, proxy: Proxy, code: int, error: type[KubeError]
) -> None:
    proxy.answer_next = [code]
    stranger = await connect(
        kubeconfig=kubeconfig_of(proxy.url, tmp_path, user={"token": "nobodys"})
    )
    try:
        with pytest.raises(error) as caught:
            await stranger.list(PODS)
        assert caught.value.retryable is (code == 401)
    finally:
        await stranger.close()
    assert proxy.requests[-1].headers["Authorization"] == "Bearer nobodys"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, Invalid, False),
        (403, Forbidden, False),
        (410, Gone, True),
        (422, Invalid, False),
        (429, Overloaded, True),
        (500, Overloaded, True),
        (503, Overloaded, True),
    ],
)
async def test_an_answer_says_whether_the_same_request_may_succeed_later(
    *, api: KubeClient, proxy: Proxy, status: int, kind: type[KubeError], retryable: bool
) -> None:
    proxy.answer_next = [status]
    with pytest.raises(kind) as caught:
        await api.list(PODS)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert type(caught.value) is kind


async def test_no_answer_at_all_is_unreachable(tmp_path: Path) -> None:
    nobody = await connect(kubeconfig=kubeconfig_of("http://127.0.0.1:1", tmp_path))
    try:
        with pytest.raises(Unreachable) as caught:
            await nobody.list(PODS)
    finally:
        await nobody.close()
    assert caught.value.retryable


async def test_a_watch_tells_what_happens_to_an_object_as_large_as_they_get(
    api: KubeClient, namespace: str
) -> None:
    version = (await api.list(CONFIG_MAPS, namespace))["metadata"]["resourceVersion"]
    label = token_hex(4)
    large = {
        "metadata": {"generateName": "large-", "labels": {"watch": label}},
        "data": {"a": "x" * 900_000},
    }
    made = await api.create(CONFIG_MAPS, namespace, large)
    await api.delete(CONFIG_MAPS, namespace, made["metadata"]["name"], uid=made["metadata"]["uid"])
    kinds = []
    async for kind, item in api.watch(
        CONFIG_MAPS, namespace, version=version, labelSelector=f"watch={label}"
    ):
        kinds.append(kind)
        assert len(item["data"]["a"]) == 900_000
        if kind == "DELETED":
            break
    assert kinds == ["ADDED", "DELETED"]
