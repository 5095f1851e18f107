"""What the chart renders: two programs with the given settings and only the permissions that they
need."""

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
import yaml

from control.settings import ControlSettings
from inferrun.kube.namespaces import ALL
from inferrun.run_defaults import Defaults, parse_defaults
from tests.integration.chart.conftest import CHART, HelmFailed, Manifest, Render
from tests.integration.crds.server import call

ROLES = {"Role", "ClusterRole"}


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    return next(
        manifest for manifest in of_kind(manifests, kind) if manifest["metadata"]["name"] == name
    )


def environment(manifests: list[Manifest], component: str) -> dict[str, str]:
    pod = named(manifests, "Deployment", f"inferrun-{component}")["spec"]["template"]["spec"]
    return {
        entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry
    }


def test_helm_lint_passes(helm: Callable[..., str]) -> None:
    assert "0 chart(s) failed" in helm(
        "lint", "--strict", str(CHART), "--set", "temporal.address=temporal:7233"
    )


@pytest.mark.parametrize(
    "settings", [(), ("watchNamespace={models,data}",)], ids=["all namespaces", "listed"]
)
def test_in_the_namespace_default_only_the_addresses_of_the_api_servers_may_be_read(
    render: Render, settings: tuple[str, ...]
) -> None:
    (role,) = [
        role
        for role in of_kind(render(*settings), "Role")
        if role["metadata"]["namespace"] == "default"
    ]
    (rule,) = role["rules"]
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
        ["endpointslices"],
        ["kubernetes"],
        ["get"],
    )
    without = render(*settings, "rbac.readApiServers=false", "rbac.aggregateToDefaultRoles=false")
    assert not [item for item in without if item["metadata"].get("namespace") == "default"]
    assert bool(of_kind(without, "ClusterRole", "ClusterRoleBinding")) is (not settings)


def test_two_releases_of_the_same_name_share_no_cluster_scoped_objects(render: Render) -> None:
    def cluster_wide(namespace: str) -> set[str]:
        found = of_kind(render(namespace=namespace), "ClusterRole", "ClusterRoleBinding")
        return {manifest["metadata"]["name"] for manifest in found}

    assert cluster_wide("one").isdisjoint(cluster_wide("two"))


def test_the_programs_parse_the_settings_that_the_chart_passes(render: Render) -> None:
    manifests = render(
        "watchNamespace={team-a,team-b}",
        "pollingInterval=90s",
        "maxReconcileRate=7",
        "runnerServiceAccount=runner",
        "frontDoorNamespaces={team-a,team-b}",
        "temporal.taskQueue=batch",
        "temporal.uiUrl=https://temporal.example",
    )
    shim = ControlSettings.read(environment(manifests, "shim"))
    worker = ControlSettings.read(environment(manifests, "worker"))
    assert (shim.resync_seconds, shim.workers) == (90, 7)
    assert worker.front_door == ("team-a", "team-b")
    for common in (shim, worker):
        assert (common.watched.names, common.task_queue) == (("team-a", "team-b"), "batch")
        assert (common.release, common.ui_url) == (
            "inferrun-system.inferrun",
            "https://temporal.example",
        )
        assert common.runner_account == "runner"
    default = ControlSettings.read(
        environment(render(namespace="a-namespace-with-a-long-name-0"), "worker")
    )
    assert (default.watched, default.runner_account, default.front_door) == (ALL, "", ())
    other = ControlSettings.read(
        environment(render(namespace="a-namespace-with-a-long-name-1"), "worker")
    )
    assert default.release != other.release
    assert len(default.release) <= 26, "it fits in a label"


def test_certificates_and_codec_keys_are_mounted_in_both_programs(render: Render) -> None:
    settings = (
        "temporal.tls.secret=client",
        "temporal.tls.serverName=temporal.example",
        "temporal.codecSecret=keys",
    )
    for given, mounted in ((settings, {"temporal": "client", "codec": "keys"}), ((), {})):
        manifests = render(*given)
        for component in ("shim", "worker"):
            pod = named(manifests, "Deployment", f"inferrun-{component}")["spec"]["template"][
                "spec"
            ]
            secrets = {
                volume["name"]: volume["secret"]["secretName"]
                for volume in pod["volumes"]
                if "secret" in volume
            }
            assert secrets == mounted
            folders = {
                mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]
            }
            found = environment(manifests, component)
            tls = {name: value for name, value in found.items() if name.startswith("TEMPORAL_TLS")}
            assert bool(tls) is bool(mounted)
            if mounted:
                assert found["INFERRUN_CODEC_KEYS"] == folders["codec"]
                assert tls.pop("TEMPORAL_TLS_SERVER_NAME") == "temporal.example"
                assert {Path(value).parent for value in tls.values()} == {Path(folders["temporal"])}
                assert {Path(value).name for value in tls.values()} == {
                    "tls.crt",
                    "tls.key",
                    "ca.crt",
                }


def test_a_pod_monitor_has_both_programs_scraped_if_it_is_turned_on(render: Render) -> None:
    assert of_kind(render(), "PodMonitor") == []
    manifests = render(
        "metrics.podMonitor.enabled=true", "metrics.podMonitor.labels.release=prometheus"
    )
    [monitor] = of_kind(manifests, "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    endpoints = {one["port"]: one for one in monitor["spec"]["podMetricsEndpoints"]}
    assert endpoints["health"]["honorLabels"] is True
    wanted = monitor["spec"]["selector"]["matchLabels"]
    for component in ("shim", "worker"):
        template = named(manifests, "Deployment", f"inferrun-{component}")["spec"]["template"]
        assert wanted.items() <= template["metadata"]["labels"].items()
        ports = {
            port["name"]: port["containerPort"]
            for port in template["spec"]["containers"][0]["ports"]
        }
        settings = ControlSettings.read(environment(manifests, component))
        assert ports == {
            "health": settings.health_port,
            "sdk-metrics": settings.temporal_metrics_port,
        }
        assert ports.keys() == endpoints.keys()


def test_shim_and_worker_write_traces_if_a_collector_is_named(render: Render) -> None:
    endpoint = "http://collector.observability:4318"
    for given, wanted, ratio in (
        ((), "", 1.0),
        ((f"traces.endpoint={endpoint}", "traces.ratio=0.1"), endpoint, 0.1),
    ):
        manifests = render(*given)
        for component in ("shim", "worker"):
            settings = ControlSettings.read(environment(manifests, component))
            assert (settings.traces_endpoint, settings.traces_ratio) == (wanted, ratio)
        policy = named(manifests, "NetworkPolicy", "inferrun-control")
        assert ({"protocol": "TCP", "port": 4318} in policy["spec"]["egress"][1]["ports"]) is bool(
            wanted
        )


def test_of_several_replicas_a_drain_evicts_one_at_a_time_and_they_are_spread(
    render: Render,
) -> None:
    manifests = render("worker.replicas=1", "priorityClassName=high")
    [budget] = of_kind(manifests, "PodDisruptionBudget")
    assert (budget["metadata"]["name"], budget["spec"]["maxUnavailable"]) == ("inferrun-shim", 1)
    assert len(of_kind(render(), "PodDisruptionBudget")) == 2
    for component in ("shim", "worker"):
        template = named(manifests, "Deployment", f"inferrun-{component}")["spec"]["template"]
        assert template["spec"]["priorityClassName"] == "high"
        spread = template["spec"]["topologySpreadConstraints"]
        assert [one["topologyKey"] for one in spread] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
        selectors = [one["labelSelector"]["matchLabels"] for one in spread]
        if component == "shim":
            selectors.append(budget["spec"]["selector"]["matchLabels"])
        for selected in selectors:
            assert selected.items() <= template["metadata"]["labels"].items()
            assert selected["app.kubernetes.io/component"] == component


def test_the_rule_file_becomes_a_prometheus_rule_if_it_is_turned_on(render: Render) -> None:
    assert of_kind(render(), "PrometheusRule") == []
    [rule] = of_kind(
        render("metrics.alerts.enabled=true", "metrics.alerts.labels.release=prometheus"),
        "PrometheusRule",
    )
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((CHART / "alerts.yaml").read_text())


def test_each_dashboard_becomes_a_config_map_for_grafanas_sidecar_if_they_are_turned_on(
    render: Render,
) -> None:
    found = [
        one
        for one in of_kind(render("metrics.dashboards.enabled=true"), "ConfigMap")
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    files = {path.name: path.read_text() for path in (CHART / "dashboards").iterdir()}
    assert {name: text for one in found for name, text in one["data"].items()} == files
    assert len({one["metadata"]["name"] for one in found}) == len(files) == 2
    assert "grafana_dashboard" not in str(render())


def test_the_config_map_contains_the_programs_defaults(render: Render) -> None:
    data = named(render(), "ConfigMap", "inferrun-config")["data"]
    assert parse_defaults(data, last=Defaults()) == (Defaults(), ())


def test_a_changed_default_reaches_the_programs(render: Render) -> None:
    manifests = render(
        "images.runner=mine:1",
        "settings.krateoPostLimitBytes=268435456",
        "settings.allowedServiceAccounts={one,two}",
        "settings.allowedTolerations={nvidia.com/gpu=*:NoSchedule,pool=a:*}",
        "settings.allowCrossNamespaceConfig=true",
    )
    defaults, problems = parse_defaults(
        named(manifests, "ConfigMap", "inferrun-config")["data"], last=Defaults()
    )
    assert problems == ()
    assert defaults.runner_image == "mine:1"
    assert defaults.krateo_post_limit_bytes == 268_435_456
    assert defaults.allowed_service_accounts == ("one", "two")
    assert defaults.allowed_tolerations == ("nvidia.com/gpu=*:NoSchedule", "pool=a:*")
    assert defaults.allow_cross_namespace_config


def test_the_config_map_is_mounted_as_a_directory_so_that_changes_take_effect(
    render: Render,
) -> None:
    for deployment in of_kind(render(), "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert {"name": "config", "configMap": {"name": "inferrun-config"}} in pod["volumes"]
        (mount,) = [
            mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "config"
        ]
        assert mount["mountPath"] == "/etc/inferrun/config"
        assert "subPath" not in mount


def test_temporals_credentials_are_passed_from_a_secret_by_kubernetes(render: Render) -> None:
    manifests = render("temporal.envFromSecret=temporal-cloud", address="")
    for component in ("shim", "worker"):
        pod = named(manifests, "Deployment", f"inferrun-{component}")["spec"]["template"]["spec"]
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "temporal-cloud"}}]
        assert (
            not {"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"}
            & environment(manifests, component).keys()
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("temporal.address=",), "temporal.address is not set"),
        (("temporal.address=http://temporal:7233",), "/temporal/address"),
        (("settings.backoffLimit=many",), "/settings/backoffLimit"),
        (("settings.backofLimit=1",), "backofLimit"),
        (("watchNamespace=Models",), "/watchNamespace"),
        (("watchNamespace={team-a,Models}",), "/watchNamespace"),
        (("pollingInterval=soon",), "/pollingInterval"),
        (("worker.replicas=-1",), "/worker/replicas"),
        (("metrics.from={Monitoring}",), "/metrics/from"),
        (("metrics.podMonitor.enable=true",), "enable"),
        (("traces.endpoint=collector",), "/traces/endpoint"),
        (("traces.ratio=2",), "/traces/ratio"),
    ],
)
def test_an_invalid_value_is_rejected_with_its_name(
    render: Render, settings: tuple[str, ...], words: str
) -> None:
    with pytest.raises(HelmFailed) as failure:
        render(*settings)
    assert words in str(failure.value)


@pytest.fixture
def restricted_namespace(client: httpx.Client) -> Iterator[str]:
    """A namespace in which the API server warns about violations of the Pod Security level
    `restricted`."""
    name = f"chart-{token_hex(4)}"
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    yield name
    call(client, "DELETE", f"/api/v1/namespaces/{name}")


PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@pytest.mark.parametrize(
    ("settings", "address"), [((), "temporal:7233"), (("temporal.dev.enabled=true",), "")]
)
def test_the_api_server_accepts_all_objects_without_pod_security_warnings(
    client: httpx.Client,
    render: Render,
    restricted_namespace: str,
    settings: tuple[str, ...],
    address: str,
) -> None:
    warnings: list[Any] = []  # Any: header values
    client.event_hooks["response"] = [
        lambda answer: warnings.extend(answer.headers.get_list("warning"))
    ]
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    try:
        # The server has the definitions, for other tests.
        for manifest in render(
            "crds.enabled=false", *settings, namespace=restricted_namespace, address=address
        ):
            place = manifest["metadata"].get("namespace", restricted_namespace)
            path = PATHS[manifest["kind"]].format(namespace=place)
            call(client, "POST", path, manifest, params=params)
    finally:
        client.event_hooks["response"] = []
    assert warnings == []


def test_the_notes_describe_the_next_steps(helm: Callable[..., str], kubeconfig: Path) -> None:
    cluster = ("--kubeconfig", str(kubeconfig), "--namespace", "x")
    settings = ("--set", "temporal.address=temporal:7233")
    notes = helm(
        "install",
        "inferrun",
        str(CHART),
        "--dry-run=client",
        "--take-ownership",
        *settings,
        *cluster,
    )
    assert "kubectl get inferenceruns" in notes
    assert "kubectl -n x wait deployment" in notes
