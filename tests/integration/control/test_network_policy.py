"""The operator's NetworkPolicy is in the namespace of a run before its Job is, as it is in the
namespace of the release."""

from collections.abc import Iterator
from secrets import token_hex

import httpx
import pytest

from activities.launch_job import JobLauncher
from activities.network_policy import NetworkPolicyCopier
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NETWORK_POLICIES
from inferrun.resources import InferenceRun
from tests.integration.control.pods import launch, launcher_of
from tests.integration.control.proxy import Proxy
from tests.integration.crds.server import call

SPEC = {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress", "Egress"]}


@pytest.fixture(scope="module")
def home(direct: httpx.Client) -> Iterator[str]:
    """A namespace with the policy `runs`."""
    name = f"home-{token_hex(4)}"
    call(direct, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    call(direct, "POST", NETWORK_POLICIES.path(name), {"metadata": {"name": "runs"}, "spec": SPEC})
    yield name
    call(direct, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def launcher(api: KubeClient, home: str) -> JobLauncher:
    return launcher_of(api, network_policy=NetworkPolicyCopier(api, name="runs", home=home))


async def test_the_policy_is_there_before_the_job(
    launcher: JobLauncher, api: KubeClient, proxy: Proxy, run: InferenceRun
) -> None:
    await launch(launcher, run)
    copied = await api.get(NETWORK_POLICIES, run.metadata.namespace, "runs")
    assert copied["spec"] == SPEC
    assert copied["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferrun"
    written = [
        request.path.split("?")[0]
        for request in proxy.requests
        if request.method in ("POST", "PATCH")
    ]
    assert written.index(NETWORK_POLICIES.path(run.metadata.namespace, "runs")) < written.index(
        f"/apis/batch/v1/namespaces/{run.metadata.namespace}/jobs"
    )


async def test_a_changed_policy_is_copied_again_and_one_that_is_gone_is_not_an_obstacle(
    api: KubeClient, home: str, namespace: str
) -> None:
    await NetworkPolicyCopier(api, name="runs", home=home).copy_to(namespace)
    await api.patch(NETWORK_POLICIES, home, "runs", {"spec": {"policyTypes": ["Egress"]}})
    await NetworkPolicyCopier(api, name="runs", home=home).copy_to(namespace)
    copied = await api.get(NETWORK_POLICIES, namespace, "runs")
    assert copied["spec"]["policyTypes"] == ["Egress"]
    await NetworkPolicyCopier(api, name="no-such-policy", home=home).copy_to(namespace)


async def test_a_burst_of_launches_copies_it_once(
    api: KubeClient, proxy: Proxy, home: str, namespace: str
) -> None:
    copier = NetworkPolicyCopier(api, name="runs", home=home)
    await copier.copy_to(namespace)
    before = len(proxy.requests)
    await copier.copy_to(namespace)
    assert len(proxy.requests) == before
