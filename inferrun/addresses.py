"""Which network addresses runs may connect to: a decision about an address, after name resolution.
Pure.

Model servers and data handlers are named by users of a namespace, and a runner connects to whatever
they name. It must not serve as a way to the node's own services, the cloud's metadata service, or
the cluster's control plane.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CONTROL_PLANE_PORTS: Final = {
    2379: "etcd",
    2380: "etcd",
    6443: "the API server",
    7233: "Temporal",
    10250: "the kubelet",
    10255: "the kubelet",
    10257: "the controller manager",
    10259: "the scheduler",
}
"""Ports that are refused at every address: nodes have many addresses, and a runner does not know
them all."""

_METADATA: Final = tuple(
    ip_network(network)
    for network in (
        "169.254.0.0/16",
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google Cloud
    )
)

_TRANSLATED: Final = (
    IPv6Network("64:ff9b::/96"),
    IPv6Network("64:ff9b:1::/48"),
    IPv6Network("::ffff:0:0:0/96"),
)
"""NAT64 and SIIT."""

_COMPATIBLE: Final = IPv6Network("::/96")


@dataclass(frozen=True, slots=True)
class Target:
    """An entry of a list of addresses: a network or a host name, and a port if the entry is about
    one port only."""

    network: Network | None
    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """An entry such as `10.0.0.0/8`, `10.1.2.3:8080`, `[fd00::1]:443` or
        `temporal.example:7233`. Raises ValueError."""
        host, port = _split_port(text.strip())
        try:
            return cls(ip_network(host), host, port)
        except ValueError:
            pass
        if not host or "/" in host or ":" in host or not any(char.isalpha() for char in host):
            raise ValueError(
                f"{text!r} is neither an address, a network such as 10.0.0.0/8, nor a host name"
            )
        return cls(None, host, port)

    def covers(self, address: Address, port: int) -> bool:
        """Whether the entry is about this address and port; an entry with a host name never is."""
        if self.network is None or (self.port is not None and self.port != port):
            return False
        return address.version == self.network.version and address in self.network


def parse_targets(text: str) -> tuple[Target, ...]:
    """The entries of a comma-separated list. Raises ValueError."""
    return tuple(Target.parse(part) for part in text.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """`allowed` are exceptions from everything else; `refused` is refused besides what is never
    allowed by default."""

    allowed: tuple[Target, ...] = ()
    refused: tuple[Target, ...] = ()

    def refusal(self, address: str, port: int) -> str:
        """Why runs must not connect to an address that name resolution returned; empty if they
        may."""
        given = ip_address(address.partition("%")[0])
        if self._is_allowed(given, port):
            return ""
        mapped = given.ipv4_mapped if isinstance(given, IPv6Address) else None
        # what is allowed for one of them is not for the others
        for candidate in (mapped or given, *_embedded(given)):
            if not self._is_allowed(candidate, port) and (kind := self._kind(candidate, port)):
                return kind
        return ""

    def _is_allowed(self, address: Address, port: int) -> bool:
        return any(target.covers(address, port) for target in self.allowed)

    def _kind(self, address: Address, port: int) -> str:
        if any(address.version == network.version and address in network for network in _METADATA):
            return "a link-local address or that of a metadata service"
        if address.is_loopback:
            return "a loopback address"
        is_of_this_network = address.version == 4 and (
            int(address) >> 24 == 0 or int(address) == 0xFFFFFFFF
        )
        if (
            address.is_link_local
            or address.is_multicast
            or address.is_unspecified
            or is_of_this_network
        ):
            return "a link-local, multicast or unspecified address"
        if any(target.covers(address, port) for target in self.refused):
            return "an address of the control plane"
        return f"a port of {CONTROL_PLANE_PORTS[port]}" if port in CONTROL_PLANE_PORTS else ""


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses to which packets for an IPv6 address may be translated or tunnelled."""
    if isinstance(address, IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _TRANSLATED) or (
        address in _COMPATIBLE and int(address) > 1
    ):
        found.append(last)
    if (int(address) >> 32) & 0xFFFFFFFF in (0x5EFE, 0x02005EFE):  # ISATAP
        found.append(last)
    return tuple(one for one in found if one is not None)


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed:
            raise ValueError(f"{text!r} has no closing bracket")
        port = rest.removeprefix(":")
        if not rest:
            return host, None
    elif not colon or ":" in host:
        return text, None
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} has an invalid port")
    return host, int(port)
