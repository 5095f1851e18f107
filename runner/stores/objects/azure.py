"""The label `azure`: Azure Blob Storage.

The storage object has `account`, `container`, `path`, `endpoint`, `credentialsRef{name}` and `format`.
"""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, cast

from obstore.store import AzureStore
from pydantic import Field

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedSecret, naming_secret_field
from inferrun.resources.storage import AZURE_KEYS
from runner.stores.objects.cloud import Cloud, Transport
from runner.stores.objects.input import ObjectInputSpec, open_objects
from runner.stores.objects.output import ObjectOutputSpec, open_folder, open_folder_results
from runner.stores.objects.spec import ObjectSpec

if TYPE_CHECKING:
    from obstore.store import AzureConfig

_AUTHORITY: Final = "https://login.microsoftonline.com"
_OF_IDENTITY: Final = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE")
"""What the webhook of Azure Workload Identity adds to a Pod."""


class AzureSpec(ObjectSpec):
    """Objects of a container."""

    label: ClassVar[str] = "azure"
    place: ClassVar[str] = "container"

    account: str = Field(pattern=r"^[a-z0-9]{3,24}$")
    container: str = Field(min_length=3, max_length=63, pattern=r"^([a-z0-9]+(-[a-z0-9]+)*|\$root|\$web)$")

    @classmethod
    def _may_have(cls, path: str) -> bool:
        return path.count("/") <= 1 or not path.strip("/")  # an emulator has the account there

    @property
    def url(self) -> str:
        """The URL of the account."""
        return self.endpoint or f"https://{self.account}.blob.core.windows.net"

    @property
    def root(self) -> str:
        """The URL of the container, as Hadoop writes it."""
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"

    def cloud(self, folder: Path, *, field: str, error: type[RunnerError]) -> Cloud:
        """With the credentials in a mounted Secret, or those of the Pod's service account. Raises `error` for the Secret."""
        authority = os.environ.get("AZURE_AUTHORITY_HOST") or _AUTHORITY
        with naming_secret_field(f"{field}.credentialsRef", error):
            config = self._credentials(folder)
        is_identity = not config and os.environ.keys() >= set(_OF_IDENTITY)
        if is_identity:
            tenant, client, file = (os.environ[name] for name in _OF_IDENTITY)
            config = {
                "credential_type": "workload_identity",
                "tenant_id": tenant,
                "client_id": client,
                "federated_token_file": file,
            }
        asks_authority = "tenant_id" in config
        if asks_authority:
            config["authority_host"] = authority
        if not config:
            config = {"skip_signature": True}
        config |= {"account_name": self.account, "endpoint": self.url}

        def open_store(transport: Transport) -> AzureStore:
            return AzureStore(
                self.container, config=config, client_options=transport.options, retry_config=transport.retries
            )

        of_secret = f"{field}.credentialsRef and its permissions"
        return Cloud(
            open_store,
            access="the roles of the Pod's identity on the container" if is_identity else of_secret,
            identities=(authority,) if asks_authority else (),
            trust="the federated credential of its identity" if is_identity else f"{field}.credentialsRef",
        )

    def _credentials(self, folder: Path) -> "AzureConfig":
        if self.credentials_ref is None:
            return {}
        secret = MountedSecret(folder, self.credentials_ref.name)
        for kind, names in AZURE_KEYS.items():
            found = {name: secret.value(key, is_ascii=True) for key, name in names.items()}
            if all(found.values()):
                return cast("AzureConfig", {"credential_type": kind, **found})
        principal = ", ".join(AZURE_KEYS["client_secret"])
        raise ValueError(f"Secret {secret.name!r} has no key accountKey, no key sasToken, and not all of {principal}")


class AzureInputSpec(AzureSpec, ObjectInputSpec):
    """What is read of a container."""


class AzureOutputSpec(AzureSpec, ObjectOutputSpec):
    """The label under `output`."""


open_input = partial(open_objects, AzureInputSpec)
open_output = partial(open_folder, AzureOutputSpec)
open_results = partial(open_folder_results, AzureOutputSpec)
