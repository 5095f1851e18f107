"""A trial installation, which brings Temporal's development server along."""

import pytest

from tests.integration.chart.conftest import HelmFailed, Manifest, Render
from tests.integration.chart.test_chart import environment, named
from tests.integration.chart.test_network_policies import CONTROL, policies, ports

TRIAL = "temporal.dev.enabled=true"
NAME = "inferrun-temporal"


def pod(manifests: list[Manifest]) -> Manifest:
    found: Manifest = named(manifests, "Deployment", NAME)["spec"]["template"]
    return found


def test_the_programs_use_the_server_of_the_trial(render: Render) -> None:
    manifests = render(TRIAL, "temporal.namespace=batch", address="")
    template, service = pod(manifests), named(manifests, "Service", NAME)
    for component in ("shim", "worker"):
        variables = environment(manifests, component)
        assert variables["TEMPORAL_ADDRESS"] == f"{NAME}.{service['metadata']['namespace']}:7233"
        assert variables["TEMPORAL_NAMESPACE"] == "batch"
        assert variables["TEMPORAL_UI_URL"] == "http://localhost:8233"
    assert "--namespace=batch" in template["spec"]["containers"][0]["args"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    assert (
        environment(render(TRIAL, "temporal.uiUrl=https://ui", address=""), "shim")[
            "TEMPORAL_UI_URL"
        ]
        == "https://ui"
    )
    assert NAME not in {manifest["metadata"]["name"] for manifest in render()}


def test_only_shim_worker_and_listed_peers_reach_the_server(render: Render) -> None:
    peer = "networkPolicies.temporalFrontend.extraPeers[0].namespaceSelector.matchLabels.team=a"
    found = policies(render, TRIAL, peer, address="")
    policy, control = found["inferrun-system", NAME], found[CONTROL]
    labels = pod(render(TRIAL, address=""))["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert not control["podSelector"]["matchLabels"].items() <= labels.items()
    assert ports(policy["ingress"]) == {("TCP", 7233)}
    programs, other = policy["ingress"][0]["from"]
    assert programs["podSelector"] == control["podSelector"]
    assert other["namespaceSelector"]["matchLabels"] == {"team": "a"}
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])
    assert ("TCP", 7233) in ports(control["egress"])
    assert ("inferrun-system", NAME) not in policies(
        render, TRIAL, "networkPolicies.enabled=false", address=""
    )


def test_the_server_has_no_token_and_writes_to_a_volume_only(render: Render) -> None:
    spec = pod(render(TRIAL, address=""))["spec"]
    [container] = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (
        True,
        65532,
    )
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {name for mount in container["volumeMounts"] for name in [mount["mountPath"]]} == {
        "/data"
    }
    without = pod(render(TRIAL, "podSecurity.fixedUser=false", address=""))["spec"]
    assert "runAsUser" not in without["securityContext"]


def test_an_address_of_another_server_is_refused(render: Render) -> None:
    with pytest.raises(
        HelmFailed, match=r"set temporal\.dev\.enabled=false to use the server at temporal\.address"
    ):
        render(TRIAL)
    with pytest.raises(HelmFailed, match=r"--set temporal\.dev\.enabled=true"):
        render(address="")
