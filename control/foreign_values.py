"""Decodes values of workflows and schedules that any client may have written, in an encoding of its choice."""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.client import Client


async def decode_foreign(client: Client, payloads: Sequence[Payload]) -> list[object] | None:
    """The values; None if they cannot be decoded, for whatever reason a converter or codec has for that."""
    try:
        return list(await client.data_converter.decode(payloads))
    except Exception:  # noqa: BLE001 -- what one program has written must not stop what is done for another one
        return None
