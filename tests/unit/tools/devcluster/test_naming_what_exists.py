"""A cluster or a Temporal server that somebody else runs is used when it is named, and only then."""

import pytest

from tools.devcluster.foreign import OWN_TEMPORAL, check_temporal, host_and_port, named
from tools.devcluster.handover import env_text
from tools.devcluster.problem import Problem


def test_nothing_is_named_by_a_kubeconfig_that_lies_around() -> None:
    given = named({"KUBECONFIG": "/home/somebody/.kube/config"})
    assert not given.context
    assert not given.temporal


def test_our_own_address_read_back_from_the_env_file_names_nothing() -> None:
    assert not named({"TEMPORAL_ADDRESS": OWN_TEMPORAL, "TEMPORAL_NAMESPACE": "other"}).temporal


def test_a_server_on_loopback_is_refused_because_pods_cannot_reach_it() -> None:
    with pytest.raises(Problem, match="which Pods cannot reach") as caught:
        check_temporal(named({"TEMPORAL_ADDRESS": "127.0.0.1:7233"}))
    assert "unset TEMPORAL_ADDRESS" in caught.value.cure


@pytest.mark.parametrize("address", ["temporal.example", ":7233", "temporal.example:grpc"])
def test_an_address_that_is_none_is_named_with_its_form(address: str) -> None:
    with pytest.raises(Problem, match="TEMPORAL_ADDRESS is"):
        host_and_port(address)


def test_the_env_file_survives_a_path_with_blanks() -> None:
    assert env_text({"KUBECONFIG": "/home/a b/kubeconfig"}) == "KUBECONFIG='/home/a b/kubeconfig'\n"
