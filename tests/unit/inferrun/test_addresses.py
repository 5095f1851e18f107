"""Decisions about the addresses to which a runner may connect."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from inferrun.addresses import AddressPolicy, parse_targets

REFUSED = (
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "0.0.0.0",  # noqa: S104
    "::",
    "0.1.2.3",
    "255.255.255.255",
    "224.0.0.1",
    "ff02::1",
    "169.254.169.254",
    "169.254.170.2",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "fd12:3456::5efe:169.254.169.254",
    "2001:db8::200:5efe:127.0.0.1",
)
ALLOWED = (
    "10.1.2.3",
    "192.168.1.1",
    "8.8.8.8",
    "fd12:3456::1",
    "2001:4860:4860::8888",
    "64:ff9b::808:808",
    "2002:808:808::",
)


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_of_the_node_and_of_metadata_services_are_refused(address: str) -> None:
    assert AddressPolicy().refusal(address, 80)


@pytest.mark.parametrize("address", ALLOWED)
def test_other_addresses_are_allowed(address: str) -> None:
    assert AddressPolicy().refusal(address, 8080) == ""


@pytest.mark.parametrize("port", [2379, 6443, 7233, 10250, 10255])
def test_the_ports_of_a_control_plane_are_refused_at_every_address(port: int) -> None:
    assert AddressPolicy().refusal("10.1.2.3", port)
    assert AddressPolicy().refusal("fd12:3456::1", port)


def test_addresses_that_the_installation_refuses_are_refused_in_every_spelling() -> None:
    policy = AddressPolicy(
        refused=parse_targets("10.96.0.1, 10.0.0.0/24:9000, temporal.example:7244")
    )

    assert policy.refusal("10.96.0.1", 443)
    assert policy.refusal("::ffff:10.96.0.1", 443)
    assert policy.refusal("10.0.0.7", 9000)
    assert policy.refusal("10.0.0.7", 9001) == ""


def test_an_exception_precedes_every_refusal_and_may_be_about_one_port() -> None:
    policy = AddressPolicy(allowed=parse_targets("127.0.0.1:8080,10.1.2.3:6443,[::1]:80"))

    assert policy.refusal("127.0.0.1", 8080) == ""
    assert policy.refusal("127.0.0.1", 8081)
    assert policy.refusal("10.1.2.3", 6443) == ""
    assert policy.refusal("::1", 80) == ""


@pytest.mark.parametrize(
    "text", ["10.0.0.0/33", "1.2.3.4:0", "1.2.3.4:99999", "[::1", "10.0.0.1:x", "1.2.3.4.5", "a/b"]
)
def test_an_invalid_entry_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid port|neither an address|closing bracket"):
        parse_targets(f"10.0.0.1,{text}")


def test_an_allowed_address_allows_no_other_one_in_the_same_tunnel() -> None:
    """A Teredo address has two: that of a server, and that of the client behind it."""
    server, client = IPv4Address("192.0.2.1"), IPv4Address("169.254.169.254")
    teredo = IPv6Address((0x20010000 << 96) | (int(server) << 64) | (int(client) ^ 0xFFFFFFFF))
    assert (server, client) == teredo.teredo
    policy = AddressPolicy(allowed=parse_targets("192.0.2.1"))
    assert "metadata" in policy.refusal(str(teredo), 80)
    both = AddressPolicy(allowed=parse_targets("192.0.2.1, 169.254.169.254"))
    assert both.refusal(str(teredo), 80) == ""
