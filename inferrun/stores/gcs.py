"""The label `gcs`: Google Cloud Storage. Pure."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.secrets import SecretRef
from inferrun.stores.buckets import ObjectStorage
from inferrun.stores.declaration import End, Form, SecretValues, StorageSpec

KEY: Final = "credentials.json"
"""The key of a Secret."""

NO_CREDENTIALS: Final = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": "", "gcs_base_url": ""}'
"""A key file with which obstore sends requests without credentials. With `skip_signature` alone, it
would ask the metadata service of the node for some."""

_NAME: Final = Form(
    allowed="must be the name of a bucket: 3 to 222 lower-case letters, digits, -, _ and ., with a letter or digit at both ends",
    matches=r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]",
)
_ACCOUNT: Final = Form(
    allowed="must be the address of a service account of Google",
    matches=r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+",
)


class WorkloadIdentity(StorageSpec):
    """How Google knows the Pod's service account: by workload identity federation."""

    audience: Annotated[str, Field(max_length=512, pattern=r"^//iam\.googleapis\.com/\S+$")]
    """The provider that trusts the cluster, such as
    //iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/POOL/providers/NAME."""

    service_account: Annotated[str, Field(max_length=256), _ACCOUNT] = ""
    """The service account of Google to impersonate. Default: the Pod's own identity in the pool has
    the permissions."""


class GcsStorage(ObjectStorage):
    """Objects of a bucket of Google Cloud Storage."""

    label = "gcs"
    store_class = "GCSStore"
    service = "Google Cloud Storage"
    secret_keys = (KEY,)
    login_variables = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT_KEY")
    endpoint_variables = ("STORAGE_EMULATOR_HOST",)

    bucket: Annotated[str, Field(max_length=222), _NAME]
    """Name of the bucket."""

    endpoint: Annotated[str, Field(max_length=2048)] = ""
    """URL of the server. Default: https://storage.googleapis.com."""

    credentials_ref: SecretRef | None = None
    """Secret with the key file of a service account of Google in the key credentials.json. Default:
    workloadIdentity; without one, requests have no credentials."""

    workload_identity: WorkloadIdentity | None = None
    """Credentials for the token of the Pod's service account (serviceAccountName), instead of
    credentialsRef."""

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"gs://{self.bucket}"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.endpoint or "https://storage.googleapis.com"

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """Two sources of credentials."""
        yield from super().problems(end=end, path=path)
        if self.workload_identity and self.credentials_ref:
            yield invalid(
                f"{path}.workloadIdentity", "set", "excludes credentialsRef; remove one of them"
            )

    def config(self, endpoint: str) -> dict[str, Any]:  # Any: obstore's
        """The server."""
        return {"base_url": endpoint} if endpoint else {}

    def credentials(self, secret: SecretValues, *, whose: str) -> dict[str, str]:
        """The key file."""
        try:
            found = json.loads(text := secret.get(KEY, ""))
        except ValueError:
            found = None
        if not isinstance(found, dict) or not found.keys() >= {
            "client_email",
            "private_key",
            "private_key_id",
        }:
            raise ValueError(
                f"{whose} has no key {KEY} with the key file of a Google service account"
            )
        return {"service_account_key": text}
