"""Requests to a real API server, and what it refuses."""

from pathlib import Path
from secrets import token_hex

import pytest

from control.installation import installation_id
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Overloaded,
    Unreachable,
)
from inferrun.kube.objects import CONFIG_MAPS, NAMESPACES, PODS, RUNS
from tests.integration.control.conftest import MakeRun
from tests.integration.control.proxy import Json, Proxy, kubeconfig_of

pytestmark = pytest.mark.thorough


def config_map(name: str | None = None, **more: object) -> Json:
    return {"metadata": {"name": name or f"map-{token_hex(4)}"}, "data": {"a": "1"}, **more}


async def test_an_object_is_created_read_changed_and_deleted(api: KubeClient, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    await api.patch(CONFIG_MAPS, namespace, name, {"data": {"b": "2"}})
    assert (await api.get(CONFIG_MAPS, namespace, name))["data"] == {"a": "1", "b": "2"}
    await api.delete(CONFIG_MAPS, namespace, name, uid=uid)
    with pytest.raises(NotFound):
        await api.get(CONFIG_MAPS, namespace, name)


async def test_a_cluster_wide_object_is_read(api: KubeClient) -> None:
    assert (await api.get(NAMESPACES, None, "kube-system"))["metadata"]["uid"]


async def test_the_installations_id_is_a_labels_value_of_this_cluster(api: KubeClient, namespace: str) -> None:
    uid = (await api.get(NAMESPACES, None, "kube-system"))["metadata"]["uid"]
    assert await installation_id(api, release="inferrun", namespace=namespace) == f"inferrun.{uid}"
    longest = await installation_id(api, release="r" * 53, namespace=namespace)
    assert len(longest) == 63
    assert longest.endswith(f".{uid}")


async def test_a_long_list_comes_in_pages(api: KubeClient, namespace: str) -> None:
    label = token_hex(4)
    for _ in range(5):
        await api.create(CONFIG_MAPS, namespace, {"metadata": {"generateName": "page-", "labels": {"page": label}}})
    first = await api.list(CONFIG_MAPS, namespace, labelSelector=f"page={label}", limit="3")
    token = first["metadata"]["continue"]
    rest = await api.list(CONFIG_MAPS, namespace, labelSelector=f"page={label}", limit="3", **{"continue": token})
    names = {item["metadata"]["name"] for item in [*first["items"], *rest["items"]]}
    assert (len(first["items"]), len(names)) == (3, 5)


async def test_a_name_that_is_taken_is_told_apart_from_a_conflict(api: KubeClient, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    with pytest.raises(AlreadyExists):
        await api.create(CONFIG_MAPS, namespace, config_map(made["metadata"]["name"]))


async def test_a_change_of_an_older_version_is_a_conflict(api: KubeClient, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    with pytest.raises(Conflict) as caught:
        await api.patch(CONFIG_MAPS, namespace, made["metadata"]["name"], {"metadata": {"resourceVersion": "1"}})
    assert not isinstance(caught.value, AlreadyExists)
    assert caught.value.retryable


async def test_a_change_of_another_uid_is_refused(api: KubeClient, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    with pytest.raises(Invalid, match=r"metadata\.uid"):
        await api.patch(CONFIG_MAPS, namespace, made["metadata"]["name"], {"metadata": {"uid": "another"}})


async def test_an_object_of_another_uid_is_not_deleted(api: KubeClient, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    name = made["metadata"]["name"]
    with pytest.raises(Conflict):
        await api.delete(CONFIG_MAPS, namespace, name, uid="00000000-0000-0000-0000-000000000000")
    assert await api.get(CONFIG_MAPS, namespace, name)


async def test_what_is_not_there_is_not_found(api: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound, match="nothing-of-that-name"):
        await api.get(CONFIG_MAPS, namespace, "nothing-of-that-name")
    with pytest.raises(NotFound):
        await api.patch(CONFIG_MAPS, namespace, "nothing-of-that-name", {"data": {}})
    with pytest.raises(NotFound):
        await api.delete(CONFIG_MAPS, namespace, "nothing-of-that-name", uid="x")
    with pytest.raises(NotFound):
        await api.log(namespace, "nothing-of-that-name", container="inference", tail_lines=1, limit_bytes=10)


async def test_what_will_be_refused_again_is_invalid_and_names_the_field(api: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name") as caught:
        await api.create(CONFIG_MAPS, namespace, config_map("Not A Name"))
    assert not caught.value.retryable


async def test_what_a_rule_of_ours_refuses_is_invalid(api: KubeClient, namespace: str, make_run: MakeRun) -> None:
    ended = await make_run(status={"phase": "Succeeded", "reason": "Succeeded"})
    with pytest.raises(Invalid, match="final"):
        await api.patch(RUNS, namespace, ended.metadata.name, {"status": {"phase": "Failed"}}, sub="status")


@pytest.mark.parametrize(("code", "error"), [(401, Overloaded), (403, Forbidden)])
async def test_a_token_that_is_renewed_is_tried_again_and_one_without_the_right_is_not(
    kubeconfig: Path, tmp_path: Path, proxy: Proxy, code: int, error: type[KubeError]
) -> None:
    proxy.answer_next = [code]
    stranger = await connect(kubeconfig=kubeconfig_of(proxy.url, tmp_path, user={"token": "nobodys"}))
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


async def test_a_watch_that_is_answered_with_410_is_gone(api: KubeClient, namespace: str, proxy: Proxy) -> None:
    proxy.answer_next = [410]  # a young API server still knows every version
    with pytest.raises(Gone):
        await anext(api.watch(CONFIG_MAPS, namespace, version="1"))


async def test_a_watch_tells_what_happens_to_an_object_as_large_as_they_get(api: KubeClient, namespace: str) -> None:
    version = (await api.list(CONFIG_MAPS, namespace))["metadata"]["resourceVersion"]
    label = token_hex(4)
    large = {"metadata": {"generateName": "large-", "labels": {"watch": label}}, "data": {"a": "x" * 900_000}}
    made = await api.create(CONFIG_MAPS, namespace, large)
    await api.delete(CONFIG_MAPS, namespace, made["metadata"]["name"], uid=made["metadata"]["uid"])
    kinds = []
    async for kind, item in api.watch(CONFIG_MAPS, namespace, version=version, labelSelector=f"watch={label}"):
        kinds.append(kind)
        assert len(item["data"]["a"]) == 900_000
        if kind == "DELETED":
            break
    assert kinds == ["ADDED", "DELETED"]


async def test_a_watch_that_breaks_off_is_unreachable(api: KubeClient, namespace: str, proxy: Proxy) -> None:
    version = (await api.list(CONFIG_MAPS, namespace))["metadata"]["resourceVersion"]
    await api.create(CONFIG_MAPS, namespace, config_map())
    watch = api.watch(CONFIG_MAPS, namespace, version=version)
    assert (await anext(watch))[0] == "ADDED"
    proxy.cut()
    with pytest.raises(Unreachable):
        await anext(watch)


async def test_the_wire_form_of_a_delete(api: KubeClient, namespace: str, proxy: Proxy) -> None:
    made = await api.create(CONFIG_MAPS, namespace, config_map())
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    await api.delete(CONFIG_MAPS, namespace, name, uid=uid, grace=5)
    [sent] = proxy.sent("DELETE")
    assert sent.path == f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    assert sent.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 5,
    }
