"""An existing cluster or Temporal server is used only if it is configured explicitly."""

import pytest

from tools.devcluster.errors import DevClusterError
from tools.devcluster.existing_cluster import (
    OWN_TEMPORAL,
    Configured,
    check_temporal,
    from_environment,
    host_and_port,
    starts_temporal,
)

KIND = from_environment({"INFERRUN_CONTEXT": "kind-demo"})
OTHER = from_environment({"INFERRUN_CONTEXT": "team"})


def test_a_kubeconfig_alone_configures_nothing() -> None:
    configured = from_environment({"KUBECONFIG": "/home/user/.kube/config"})
    assert not configured.context
    assert not configured.temporal


def test_our_own_address_from_the_env_file_configures_nothing() -> None:
    assert not from_environment({"TEMPORAL_ADDRESS": OWN_TEMPORAL, "TEMPORAL_NAMESPACE": "other"}).temporal


def test_a_loopback_address_is_rejected_because_pods_cannot_reach_it() -> None:
    with pytest.raises(DevClusterError, match="which Pods cannot reach") as caught:
        check_temporal(from_environment({"TEMPORAL_ADDRESS": "127.0.0.1:7233"}))
    assert "unset TEMPORAL_ADDRESS" in caught.value.fix


@pytest.mark.parametrize("address", ["temporal.example", ":7233", "temporal.example:grpc"])
def test_a_malformed_address_is_rejected_with_the_expected_form(address: str) -> None:
    with pytest.raises(DevClusterError, match=r"TEMPORAL_ADDRESS is .* expected host:port"):
        host_and_port(address)


def test_a_server_is_started_for_a_kind_cluster_if_the_cli_is_on_path() -> None:
    assert starts_temporal(KIND, has_cli=True, is_linux=True)


def test_a_configured_server_is_used_instead_of_starting_one() -> None:
    configured = from_environment({"INFERRUN_CONTEXT": "kind-demo", "TEMPORAL_ADDRESS": "temporal.example:7233"})
    assert not starts_temporal(configured, has_cli=True, is_linux=True)


def test_without_a_server_and_a_cli_the_message_names_both_choices() -> None:
    with pytest.raises(DevClusterError, match=r"no Temporal server .* kind-demo") as caught:
        starts_temporal(KIND, has_cli=False, is_linux=True)
    assert "TEMPORAL_ADDRESS=" in caught.value.fix
    assert "install the temporal CLI" in caught.value.fix


@pytest.mark.parametrize(("configured", "is_linux"), [(OTHER, True), (KIND, False)], ids=["not-kind", "not-linux"])
def test_a_server_that_pods_could_not_reach_is_not_offered(configured: Configured, *, is_linux: bool) -> None:
    with pytest.raises(DevClusterError) as caught:
        starts_temporal(configured, has_cli=True, is_linux=is_linux)
    assert "TEMPORAL_ADDRESS=" in caught.value.fix
    assert "CLI" not in caught.value.fix
