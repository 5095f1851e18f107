"""An existing cluster or Temporal server is used only if it is configured explicitly."""

import pytest

from tools.devcluster.errors import DevClusterError
from tools.devcluster.existing_cluster import (
    OWN_TEMPORAL,
    check_temporal,
    from_environment,
    starts_temporal,
)

KIND = {"INFERRUN_CONTEXT": "kind-demo"}


@pytest.mark.parametrize(
    "environment",
    [{"KUBECONFIG": "/home/user/.kube/config"}, {"TEMPORAL_ADDRESS": OWN_TEMPORAL}],
    ids=str,
)
def test_a_kubeconfig_and_our_own_address_configure_nothing(environment: dict[str, str]) -> None:
    configured = from_environment(environment)
    assert not configured.context
    assert not configured.temporal


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:7233", "which Pods cannot reach"),
        ("temporal.example", r"TEMPORAL_ADDRESS is .* expected host:port"),
        (":7233", r"TEMPORAL_ADDRESS is .* expected host:port"),
        ("temporal.example:grpc", r"TEMPORAL_ADDRESS is .* expected host:port"),
    ],
)
def test_an_address_that_cannot_be_used_is_rejected(address: str, message: str) -> None:
    with pytest.raises(DevClusterError, match=message):
        check_temporal(from_environment({"TEMPORAL_ADDRESS": address}))


@pytest.mark.parametrize(
    ("more", "starts"), [({}, True), ({"TEMPORAL_ADDRESS": "temporal.example:7233"}, False)]
)
def test_a_server_is_started_for_a_kind_cluster_unless_one_is_configured(
    more: dict[str, str], *, starts: bool
) -> None:
    assert starts_temporal(from_environment(KIND | more), has_cli=True, is_linux=True) is starts


@pytest.mark.parametrize(
    ("context", "has_cli", "is_linux"),
    [("kind-demo", False, True), ("team", True, True), ("kind-demo", True, False)],
    ids=["no CLI", "not kind", "not Linux"],
)
def test_the_cli_is_offered_only_if_pods_could_reach_its_server(
    context: str, *, has_cli: bool, is_linux: bool
) -> None:
    with pytest.raises(DevClusterError, match="no Temporal server") as caught:
        starts_temporal(
            from_environment({"INFERRUN_CONTEXT": context}), has_cli=has_cli, is_linux=is_linux
        )
    assert "TEMPORAL_ADDRESS=" in caught.value.fix
    assert ("install the temporal CLI" in caught.value.fix) is not has_cli
