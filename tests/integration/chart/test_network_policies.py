"""The NetworkPolicies that the chart renders."""

from typing import Any

import pytest

from inferrun import wellknown
from tests.integration.chart.conftest import Manifest, Render

Policies = dict[tuple[str, str], Manifest]


def policies(render: Render, *settings: str, address: str = "temporal:7233") -> Policies:
    """The policies by namespace and name."""
    found = [item for item in render(*settings, address=address) if item["kind"] == "NetworkPolicy"]
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["spec"] for item in found
    }


def ports(rules: list[dict[str, Any]]) -> set[tuple[str, int]]:  # Any: free-form YAML
    return {(port["protocol"], port["port"]) for rule in rules for port in rule["ports"]}


CONTROL = ("inferrun-system", "inferrun-control")
RUNS = ("inferrun-system", "inferrun-system-inferrun-runs")


@pytest.mark.parametrize(
    ("settings", "address", "port"),
    [
        ((), "temporal:7300", 7300),
        ((), "[fd00::1]:7301", 7301),
        (("networkPolicies.temporalPort=443",), "cloud.example:7233", 443),
        (("temporal.envFromSecret=cloud",), "", 7233),
    ],
)
def test_shim_and_worker_reach_only_dns_the_api_server_and_temporal(
    render: Render, settings: tuple[str, ...], address: str, port: int
) -> None:
    control = policies(render, *settings, address=address)[CONTROL]
    assert ports(control["ingress"]) == {("TCP", 8080), ("TCP", 8081)}
    assert [list(rule) for rule in control["ingress"]] == [["ports"]]
    assert ports(control["egress"]) == {
        ("UDP", 53),
        ("TCP", 53),
        ("TCP", 443),
        ("TCP", 6443),
        ("TCP", port),
    }


def test_metrics_can_be_restricted_to_namespaces(render: Render) -> None:
    [rule] = policies(render, "metrics.from={monitoring,other}")[CONTROL]["ingress"]
    [peer] = rule["from"]
    [expression] = peer["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "In")
    assert expression["values"] == ["monitoring", "other"]
    assert ports([rule]) == {("TCP", 8080), ("TCP", 8081)}


def test_the_worker_copies_the_policy_for_runs(render: Render) -> None:
    assert set(policies(render)) == {CONTROL, RUNS}
    manifests = render()
    [worker] = [
        one
        for one in manifests
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "inferrun-worker"
    ]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    assert {"name": "RUN_NETWORK_POLICY", "value": RUNS[1]} in container["env"]


def test_run_pods_reach_neither_metadata_services_nor_the_control_plane(render: Render) -> None:
    found = policies(
        render,
        "networkPolicies.runs.deniedCidrs={169.254.0.0/16,10.0.0.1/32,fe80::/10}",
        "networkPolicies.temporalFrontend.namespace=temporal",
    )
    runs = found[RUNS]
    assert (runs["policyTypes"], "ingress" in runs) == (["Ingress", "Egress"], False)
    assert runs["podSelector"]["matchLabels"] == {wellknown.LABEL_MANAGED_BY: wellknown.MANAGED_BY}
    assert runs["podSelector"]["matchExpressions"] == [
        {"key": wellknown.LABEL_RUN_UID, "operator": "Exists"}
    ]
    dns, others = runs["egress"]
    assert ports([dns]) == {("UDP", 53), ("TCP", 53)}
    pods, ipv4, ipv6 = others["to"]
    (expression,) = pods["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], set(expression["values"])) == (
        "NotIn",
        {"inferrun-system", "temporal"},
    )
    assert ipv4["ipBlock"]["except"] == ["169.254.0.0/16", "10.0.0.1/32"]
    assert ipv6["ipBlock"]["except"] == ["fe80::/10"]


def test_temporals_frontend_admits_only_the_product_and_listed_peers(render: Render) -> None:
    found = policies(
        render,
        "networkPolicies.temporalFrontend.namespace=temporal",
        "networkPolicies.temporalFrontend.podLabels.app=frontend",
        "networkPolicies.temporalFrontend.extraPeers[0].ipBlock.cidr=10.1.0.0/16",
    )
    frontend = found[("temporal", "inferrun-system-inferrun-temporal-frontend")]
    assert frontend["podSelector"]["matchLabels"] == {"app": "frontend"}
    product, others = frontend["ingress"]
    assert ports([product]) == {("TCP", 7233)}
    (peer,) = product["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "inferrun-system"
    }
    assert [list(peer) for peer in others["from"]] == [["namespaceSelector"], ["ipBlock"]]


def test_the_switch_removes_all_policies(render: Render) -> None:
    assert policies(render, "networkPolicies.enabled=false", "watchNamespace=team-a") == {}
