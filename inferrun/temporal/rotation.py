"""Connects again with new credentials when the files that contain them change, without a restart.

Temporal's client reads certificates and keys once. `RotatingService` stands between a client and
its connection, so that everything that holds the client uses the new connection with the next call.
Calls in progress complete on the old one.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, TypeVar

from google.protobuf.message import Message
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import ServiceClient

logger = logging.getLogger(__name__)

REREAD_SECONDS: Final = 30.0

Response = TypeVar("Response", bound=Message)


class RotatingService(ServiceClient):
    """Passes calls on to the current connection."""

    def __init__(self, first: ServiceClient) -> None:
        super().__init__(first.config)
        self._current = first

    def use(self, connection: ServiceClient) -> None:
        """Make further calls on another connection."""
        self._current = connection
        self.config = connection.config

    @property
    def worker_service_client(self) -> "ServiceClient":  # type: ignore[override]  # a private type of the SDK
        return self._current.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        self._current.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: str | None) -> None:
        self._current.update_api_key(api_key)

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Response],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> Response:
        return await self._current._rpc_call(
            rpc, req, resp_type, service=service, retry=retry, metadata=metadata, timeout=timeout
        )


class CredentialRotation:
    """Run it as one task. `on_change` is called after each change, for workers, which keep a
    connection of their own."""

    def __init__(
        self,
        service: RotatingService,
        *,
        on_change: Callable[[], None],
        interval: float = REREAD_SECONDS,
    ) -> None:
        self._service = service
        self._on_change = on_change
        self._interval = interval
        self._settings = ClientConfig.load_client_connect_config()

    async def run(self) -> None:
        """Compare the settings with those in use, until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                settings = await asyncio.to_thread(ClientConfig.load_client_connect_config)
                if settings == self._settings:
                    continue
                now = self._service.config
                client = await Client.connect(
                    **settings, identity=now.identity, runtime=now.runtime
                )
                self._service.use(client.service_client)
                self._on_change()
                self._settings = settings
                logger.info("connected to Temporal with changed credentials")
            except Exception as error:  # noqa: BLE001 -- tried again with the next interval
                text = f"{type(error).__name__}: {error}"[:500]
                logger.warning(
                    "cannot connect to Temporal with the changed credentials", extra={"error": text}
                )


def rotations_of(
    client: Client, *, on_change: Callable[[], None] = lambda: None
) -> list[CredentialRotation]:
    """The rotation of a client's credentials; empty for a client whose connection cannot be
    replaced."""
    service = client.service_client
    return (
        [CredentialRotation(service, on_change=on_change)]
        if isinstance(service, RotatingService)
        else []
    )
