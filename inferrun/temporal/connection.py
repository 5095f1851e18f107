"""Connects to Temporal with the standard client settings (`temporalio.envconfig`: address, namespace, API key, TLS), and
registers the search attributes.
"""

import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from inferrun.temporal.plugin import inferrun_plugin

logger = logging.getLogger(__name__)

INSTALLATION = SearchAttributeKey.for_keyword("InferrunInstallation")
RUN = SearchAttributeKey.for_keyword("InferrunRun")
CONFIG = SearchAttributeKey.for_keyword("InferrunConfig")
ATTRIBUTES = (INSTALLATION, RUN, CONFIG)

VALUE_LIMIT = 255
"""Maximum length of a Keyword value on SQL stores."""


async def connect(*, identity: str) -> Client:
    """A client for the address, namespace and credentials in the environment or in Temporal's configuration file."""
    settings = ClientConfig.load_client_connect_config()
    return await Client.connect(**settings, identity=identity, plugins=[inferrun_plugin()])


async def register_search_attributes(client: Client) -> bool:
    """Register our search attributes; False if they are missing and we have no permission to add them.

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
            request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=attributes)
            await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return True
        if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            logger.warning("search attributes cannot be registered; workflows carry only a memo")
            return False
        raise
    return True


def attributes(*, installation: str, run: str, config: str) -> TypedSearchAttributes:
    """The search attributes of a run's workflow; `run` is namespace/name."""
    pairs = {INSTALLATION: installation, RUN: run, CONFIG: config}
    return TypedSearchAttributes([SearchAttributePair(key, value[:VALUE_LIMIT]) for key, value in pairs.items()])
