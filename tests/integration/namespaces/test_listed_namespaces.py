"""An installation that serves a list of namespaces needs no permission outside them, and serves no
other namespace."""

from pathlib import Path

import pytest

from inferrun.installation import RECORD
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, JOBS, LEASES, NAMESPACES, Object
from inferrun.resources.status import NOT_OBSERVED
from tests.integration.namespaces.installation import (
    KINDS,
    CreateNamespace,
    NewRelease,
    create_run,
    has_job,
    running,
    status_of,
)
from tests.integration.waiting import until
from worker.api_servers import ENDPOINT_SLICES

pytestmark = pytest.mark.thorough

SECONDS = 60
API_SERVERS: Object = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kubernetes"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.7"]}],
    "ports": [{"name": "https", "port": 443, "protocol": "TCP"}],
}
"""As the API servers write it; those of the test do not."""


async def test_the_listed_namespaces_are_served_with_permissions_in_them_alone(
    *,
    api: KubeClient,
    new_release: NewRelease,
    create_namespace: CreateNamespace,
) -> None:
    system, first, second, other = [
        await create_namespace(name) for name in ("system", "first", "second", "other")
    ]
    release = await new_release(namespace=system, watched=(first, second))
    for namespace in (first, second, other):
        await create_run(api, namespace)
    async with running(release):
        await until(has_job(api, first, second), seconds=SECONDS)
        await create_run(api, second, name="later")
        await until(has_job(api, second, name="later"), seconds=SECONDS)
    assert await status_of(api, other) == {"observedGeneration": NOT_OBSERVED}
    [job] = (await api.list(JOBS, first))["items"]
    uid = (await api.get(NAMESPACES, None, system))["metadata"]["uid"]
    assert job["metadata"]["labels"]["inferrun.dev/installation"].endswith(f".{uid}")


async def test_the_api_servers_own_addresses_are_refused_to_runs(
    *,
    api: KubeClient,
    new_release: NewRelease,
    create_namespace: CreateNamespace,
) -> None:
    system, first = [await create_namespace(name) for name in ("system", "first")]
    claim = {"file": {"claimName": "data", "path": "rows.jsonl"}}
    spec = {
        "modelUrl": "http://model/v2/models/a/infer",
        "storage": {"input": claim, "output": claim},
    }
    config = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": "ours"},
        "spec": spec,
    }
    await api.create(CONFIGS, first, config)
    release = await new_release(namespace=system, watched=(first,))
    stored = await api.create(ENDPOINT_SLICES, "default", API_SERVERS)
    try:
        async with running(release):
            await create_run(api, first, config="ours")
            await until(has_job(api, first), seconds=SECONDS)
    finally:
        await api.delete(ENDPOINT_SLICES, "default", "kubernetes", uid=stored["metadata"]["uid"])
    [job] = (await api.list(JOBS, first))["items"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    [refused] = [
        entry["value"]
        for entry in container["env"]
        if entry["name"] == "INFERRUN_REFUSED_ADDRESSES"
    ]
    assert "192.0.2.7:443" in refused.split(",")


async def test_a_namespace_without_permissions_does_not_keep_the_others_from_being_served(
    *,
    api: KubeClient,
    new_release: NewRelease,
    create_namespace: CreateNamespace,
) -> None:
    """As after the deletion of a namespace, which takes the roles in it along; they come back while
    the programs run."""
    system, first, second = [await create_namespace(name) for name in ("system", "first", "second")]
    release = await new_release(namespace=system, watched=(first, second))
    bindings = (await api.list(KINDS["RoleBinding"], second))["items"]
    for binding in bindings:
        await api.delete(
            KINDS["RoleBinding"],
            second,
            binding["metadata"]["name"],
            uid=binding["metadata"]["uid"],
        )
    for namespace in (first, second):
        await create_run(api, namespace)
    async with running(release):
        await until(has_job(api, first), seconds=SECONDS)
        assert await status_of(api, second) == {"observedGeneration": NOT_OBSERVED}
        for binding in bindings:
            metadata = {"name": binding["metadata"]["name"], "namespace": second}
            await api.create(KINDS["RoleBinding"], second, {**binding, "metadata": metadata})
        await until(has_job(api, second), seconds=SECONDS)


async def test_an_installation_keeps_its_id_when_it_serves_a_list_of_namespaces_instead_of_all(
    *,
    api: KubeClient,
    new_release: NewRelease,
    create_namespace: CreateNamespace,
    tmp_path: Path,
) -> None:
    system, first = [await create_namespace(name) for name in ("system", "first")]
    everywhere, listed = tmp_path / "all", tmp_path / "list"
    for folder in (everywhere, listed):
        folder.mkdir()
    before = await new_release(namespace=system, watched=(), folder=everywhere)
    async with running(before):
        await create_run(api, first)
        await until(has_job(api, first), seconds=SECONDS)
    for kind in ("ClusterRoleBinding", "RoleBinding", "Role", "ServiceAccount"):
        for item in (await api.list(KINDS[kind], None))["items"]:
            metadata = item["metadata"]
            if metadata.get("namespace") == system or metadata["name"].startswith(
                f"{system}-inferrun"
            ):
                await api.delete(
                    KINDS[kind],
                    metadata.get("namespace", ""),
                    metadata["name"],
                    uid=metadata["uid"],
                )
    after = await new_release(namespace=system, watched=(first,), folder=listed)
    async with running(after):
        await create_run(api, first, name="later")
        await until(has_job(api, first, name="later"), seconds=SECONDS)
    jobs = (await api.list(JOBS, first))["items"]
    assert len({job["metadata"]["labels"]["inferrun.dev/installation"] for job in jobs}) == 1
    recorded = (await api.get(LEASES, system, RECORD))["spec"]["holderIdentity"]
    assert recorded == (await api.get(NAMESPACES, None, "kube-system"))["metadata"]["uid"]
