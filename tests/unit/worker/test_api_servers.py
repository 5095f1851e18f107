"""The addresses of the API server in its EndpointSlice."""

from inferrun.addresses import Target
from worker.api_servers import addresses_of


def test_each_address_is_refused_at_each_port() -> None:
    found = addresses_of(
        {
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2", "fd00::1"]}],
            "ports": [{"name": "https", "port": 6443}, {"name": "any", "port": None}],
        }
    )
    assert found == ("10.0.0.1:6443", "10.0.0.2:6443", "[fd00::1]:6443")
    assert [Target.parse(text).port for text in found] == [6443] * 3


def test_an_empty_slice_has_no_addresses() -> None:
    assert addresses_of({"addressType": "IPv4", "endpoints": None, "ports": None}) == ()
