"""The label `azure`: Azure Blob Storage. Pure."""

from typing import Annotated, Any, Final

from pydantic import Field

from inferrun.fields.secrets import SecretRef
from inferrun.stores.buckets import ObjectStorage
from inferrun.stores.declaration import Form, SecretValues

_ACCOUNT: Final = Form(
    allowed="must be the name of a storage account: 3 to 24 lower-case letters and digits",
    matches="[a-z0-9]{3,24}",
)
_NAME: Final = Form(
    allowed="must be the name of a container: lower-case letters, digits and single -, with a letter or digit at both ends",
    matches=r"[a-z0-9]+(-[a-z0-9]+)*|[$]root|[$]web",
)

_KEYS: Final = {
    "access_key": {"accountKey": "account_key"},
    "sas_token": {"sasToken": "sas_key"},
    "client_secret": {
        "tenantId": "tenant_id",
        "clientId": "client_id",
        "clientSecret": "client_secret",
    },
}
"""The keys of a Secret with their names in obstore, by obstore's types of credentials."""


class AzureStorage(ObjectStorage):
    """Objects of a container of Azure Blob Storage."""

    label = "azure"
    place = "container"
    store_class = "AzureStore"
    service = "Azure Blob Storage"
    secret_keys = tuple(key for keys in _KEYS.values() for key in keys)
    login_variables = (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_USE_AZURE_CLI",
    )
    endpoint_variables = ("AZURE_STORAGE_ENDPOINT",)

    example = "https://data.blob.core.windows.net"
    excepted = " but the account"  # which an emulator has there
    path_segments = 1

    account: Annotated[str, Field(max_length=24), _ACCOUNT]
    """Name of the storage account."""

    container: Annotated[str, Field(min_length=3, max_length=63), _NAME]
    """Name of the container."""

    endpoint: Annotated[str, Field(max_length=2048)] = ""
    """URL of the account, for other clouds and emulators. Default:
    https://<account>.blob.core.windows.net."""

    credentials_ref: SecretRef | None = None
    """Secret with accountKey, with sasToken, or with tenantId, clientId and clientSecret. Default:
    the identity of the Pod's service account (serviceAccountName); without one, requests have no
    credentials."""

    @property
    def root(self) -> str:
        """The URL of the container, as Hadoop writes it."""
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"

    @property
    def url(self) -> str:
        """The URL of the account."""
        return self.endpoint or f"https://{self.account}.blob.core.windows.net"

    def config(self, endpoint: str) -> dict[str, Any]:  # Any: obstore's
        """The account, and its server."""
        return {"account_name": self.account, **({"endpoint": endpoint} if endpoint else {})}

    def credentials(self, secret: SecretValues, *, whose: str) -> dict[str, str]:
        """A key of the account, a signature, or a principal."""
        for kind, names in _KEYS.items():
            found = {name: secret.get(key, "").strip() for key, name in names.items()}
            if all(found.values()):
                return {"credential_type": kind, **found}
        principal = ", ".join(_KEYS["client_secret"])
        raise ValueError(
            f"{whose} has no key accountKey, no key sasToken, and not all of {principal}"
        )
