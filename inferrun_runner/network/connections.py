"""The connections of the runner, under the policy that refuses addresses which runs must not reach.

The decision is made for each connection, when the socket is created, or for a client that is given
addresses only, when a name is resolved: whatever spelling an address had, and a name that resolves
differently a second time is judged a second time.
"""

import asyncio
import logging
import random
import socket
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Final

from inferrun.addresses import AddressPolicy, Target, parse_targets
from inferrun.plugins import Limits

_log = logging.getLogger(__name__)

RESOLVE_SECONDS: Final = 5.0
"""Time limit for resolving the names of refused servers; within a cluster it takes milliseconds."""

CONNECT_SECONDS: Final = 10.0
"""Timeout for establishing a connection in seconds; within a cluster it takes milliseconds."""

_AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]
]


def lifetime_of(seconds: float) -> float:
    """Seconds after which a connection is replaced: up to half less, so that not all are replaced
    at the same time."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311  not for security


class AddressRefused(OSError):
    """Runs must not connect to the server's address. The text is the same for all addresses of a
    name that have the same fault."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the server's address is {why}, which runs must not reach; the operator can allow it with the setting "
            "allowedAddresses"
        )


class Connections:
    """Opens connections under one policy."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    def open_socket(self, info: _AddressInfo) -> socket.socket:
        """The socket for an address. Raises AddressRefused."""
        family, kind, protocol, _, address = info
        host, port = str(address[0]), int(str(address[1]))
        if why := self._policy.refusal(host, port):
            raise AddressRefused(why)
        return socket.socket(family, kind, protocol)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name that are not refused, those of each family in random
        order.

        Raises AddressRefused if all are refused, and OSError if it has none.
        """
        found = self._allowed(
            await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM), port
        )
        return sorted(
            random.sample(found, len(found)), key=lambda one: (":" in one) != (":" in found[0])
        )

    def _allowed(self, infos: Sequence[_AddressInfo], port: int) -> list[str]:
        found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        refusals = {address: self._policy.refusal(address, port) for address in found}
        allowed = [address for address in found if not refusals[address]]
        if not allowed:
            raise AddressRefused(next(filter(None, refusals.values()), "unknown"))
        return allowed

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a name that are not refused. Blocks. Raises AddressRefused if all are,
        and OSError if it has none."""
        return self._allowed(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), port)

    async def check(self, host: str, port: int) -> None:
        """Raise AddressRefused if a name resolves to a refused address; a name that cannot be
        resolved passes."""
        for address in await _resolve(host):
            if why := self._policy.refusal(address, port):
                raise AddressRefused(why)


async def open_connections(limits: Limits) -> Connections:
    """The connections that these limits allow. Raises ValueError for an invalid list of
    addresses."""
    refused, resolved = parse_targets(limits.refused_addresses), list[Target]()
    for one in refused:
        if one.network is None:
            found = await _resolve(one.host)
            if not found:
                _log.info("a refused server cannot be resolved", extra={"host": one.host})
            resolved += [Target(ip_network(address), address, one.port) for address in found]
    allowed = parse_targets(limits.allowed_addresses)
    return Connections(AddressPolicy(allowed=allowed, refused=(*refused, *resolved)))


async def _resolve(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    return list(dict.fromkeys(str(info[4][0]) for info in infos))
