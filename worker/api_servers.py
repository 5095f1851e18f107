"""The addresses of the API server itself, behind its Service: runs must not reach it there either.

A program in the cluster only knows the address of the Service `kubernetes`. The addresses behind it
are in the EndpointSlice of that name, which the API servers maintain. If the chart was installed
without the permission to read it (rbac.readApiServers=false), they are not known, and the operator
can list them in the setting refusedAddresses.
"""

import asyncio
import logging
from typing import Final

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import Object, Resource

logger = logging.getLogger(__name__)

ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices")
REREAD_SECONDS: Final = 60.0


class ApiServers:
    """Run it as one task; it is read once before the worker serves."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._has_warned = False
        self.addresses: tuple[str, ...] = ()
        """Each as `host:port`, as last read."""

    async def read(self) -> None:
        """Read them again; a failure leaves them as they are, and is logged once."""
        try:
            self.addresses = addresses_of(
                await self._api.get(ENDPOINT_SLICES, "default", "kubernetes")
            )
        except Exception as error:  # noqa: BLE001 -- it may be forbidden, or edited by anybody
            if not self._has_warned:
                logger.warning(
                    "the API server's own addresses are not known",
                    extra={"error": str(error)[:500]},
                )
            self._has_warned = True

    async def run(self) -> None:
        while True:
            await self.read()
            await asyncio.sleep(REREAD_SECONDS)


def addresses_of(endpoint_slice: Object) -> tuple[str, ...]:
    """The addresses in an EndpointSlice, each with each of its ports."""
    hosts = [
        address
        for endpoint in endpoint_slice.get("endpoints") or ()
        for address in endpoint["addresses"]
    ]
    ports = [port["port"] for port in endpoint_slice.get("ports") or () if port.get("port")]
    return tuple(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts for port in ports
    )
