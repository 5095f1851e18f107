"""The label `azure`: Azure Blob Storage."""

import os
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from obstore.store import AzureStore

from inferrun.stores import AzureStorage
from inferrun_runner.stores.objects.cloud import Cloud, Mount, Transport, mounted_credentials
from inferrun_runner.stores.objects.input import open_objects
from inferrun_runner.stores.objects.output import open_folder, open_folder_results

if TYPE_CHECKING:
    from obstore.store import AzureConfig

_AUTHORITY: Final = "https://login.microsoftonline.com"
_OF_IDENTITY: Final = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE")
"""What the webhook of Azure Workload Identity adds to a Pod."""


def azure_cloud(spec: AzureStorage, mount: Mount) -> Cloud:
    """Access with the credentials in a mounted Secret, or those of the Pod's service account.
    Raises its error for the Secret."""
    authority = os.environ.get("AZURE_AUTHORITY_HOST") or _AUTHORITY
    login = mounted_credentials(spec, mount)
    is_identity = not login and os.environ.keys() >= set(_OF_IDENTITY)
    if is_identity:
        tenant, client, file = (os.environ[name] for name in _OF_IDENTITY)
        login = {
            "credential_type": "workload_identity",
            "tenant_id": tenant,
            "client_id": client,
            "federated_token_file": file,
        }
    asks_authority = "tenant_id" in login
    config = spec.config(spec.url) | login
    config["skip_signature"] = not login
    if asks_authority:
        config["authority_host"] = authority

    def open_store(transport: Transport) -> AzureStore:
        return AzureStore(
            spec.container,
            config=cast("AzureConfig", config),
            client_options=transport.options,
            retry_config=transport.retries,
        )

    of_secret = f"{mount.field}.credentialsRef and its permissions"
    return Cloud(
        open_store,
        access="the roles of the Pod's identity on the container" if is_identity else of_secret,
        identities=(authority,) if asks_authority else (),
        trust="the federated credential of its identity"
        if is_identity
        else f"{mount.field}.credentialsRef",
    )


open_input = partial(open_objects, AzureStorage, azure_cloud)
open_output = partial(open_folder, AzureStorage, azure_cloud)
open_results = partial(open_folder_results, AzureStorage, azure_cloud)
