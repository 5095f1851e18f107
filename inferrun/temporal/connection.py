"""Connects to Temporal with the standard client settings (`temporalio.envconfig`: address,
namespace, API key, TLS), and registers the search attributes.
"""

from dataclasses import replace
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from inferrun.temporal.plugin import inferrun_plugin
from inferrun.temporal.rotation import RotatingService

INSTALLATION = SearchAttributeKey.for_keyword("InferrunInstallation")
RUN = SearchAttributeKey.for_keyword("InferrunRun")
CONFIG = SearchAttributeKey.for_keyword("InferrunConfig")
ATTRIBUTES = (INSTALLATION, RUN, CONFIG)

VALUE_LIMIT = 255
"""Maximum length of a Keyword value on SQL stores."""

_NO_ROOM_OR_PERMISSION = (
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNIMPLEMENTED,
    RPCStatusCode.INVALID_ARGUMENT,  # a SQL store has room for ten attributes of type Keyword
    RPCStatusCode.RESOURCE_EXHAUSTED,
)


class TemporalUnavailable(ConnectionError):
    """Temporal cannot be reached, or rejects the connection."""


async def connect(
    *,
    identity: str,
    lazy: bool = False,
    codec_keys: Path | None = None,
    runtime: Runtime | None = None,
) -> Client:
    """A client for the address, namespace and credentials in the environment or in Temporal's
    configuration file, which can be rotated (`inferrun.temporal.rotation`). With `codec_keys`, a
    folder, payloads are encrypted (`inferrun.temporal.codec`).

    A lazy client connects with its first request; a worker cannot use one. `runtime` measures its
    calls; by default, nothing does. Raises TemporalUnavailable.
    """
    settings = ClientConfig.load_client_connect_config()
    plugins = [inferrun_plugin()]
    converter = DataConverter.default if codec_keys is None else encrypting_converter(codec_keys)
    try:
        client = await Client.connect(
            **settings,
            identity=identity,
            lazy=lazy,
            plugins=plugins,
            data_converter=converter,
            runtime=runtime,
        )
    except RuntimeError as error:  # the SDK has no error of its own for this
        raise TemporalUnavailable(f"cannot connect to Temporal: {error}") from error
    config = client.config()
    config["service_client"] = RotatingService(client.service_client)
    return Client(**config)


def encrypting_converter(codec_keys: Path) -> DataConverter:
    """The data converter of programs that share these keys. Raises
    `inferrun.temporal.codec.InvalidKeys`."""
    from inferrun.temporal.codec import EncryptionCodec  # noqa: PLC0415 -- cryptography is needed only with keys

    return replace(DataConverter.default, payload_codec=EncryptionCodec(codec_keys))


async def register_search_attributes(client: Client) -> bool:
    """Register our search attributes; returns False if there is no room for them or no permission
    to add them.

    Without them, workflows carry only a memo.
    """
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = [key.name for key in ATTRIBUTES if key.name not in known.custom_attributes]
        if missing:
            kind = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
            attributes = dict.fromkeys(missing, kind)
            request = AddSearchAttributesRequest(
                namespace=client.namespace, search_attributes=attributes
            )
            await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return True
        if error.status in _NO_ROOM_OR_PERMISSION:
            return False
        raise
    return True


def attributes(*, installation: str, run: str, config: str) -> TypedSearchAttributes:
    """The search attributes of a run's workflow; `run` is namespace/name."""
    pairs = {INSTALLATION: installation, RUN: run, CONFIG: config}
    return TypedSearchAttributes(
        [SearchAttributePair(key, value[:VALUE_LIMIT]) for key, value in pairs.items()]
    )
