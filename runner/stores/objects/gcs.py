"""The label `gcs`: Google Cloud Storage.

The storage object has `bucket`, `path`, `endpoint`, `credentialsRef{name}`, `workloadIdentity{audience, serviceAccount}` and
`format`.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self, cast
from urllib.parse import quote

from obstore.store import GCSStore
from pydantic import Field, model_validator

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedSecret, StorageSpec, naming_secret_field
from inferrun.resources.storage import GCS_KEY, NO_GCS_CREDENTIALS
from runner.stores.objects.cloud import Cloud, Transport, Upload, signed_upload
from runner.stores.objects.google_tokens import GoogleTokens, google_servers
from runner.stores.objects.input import ObjectInputSpec, open_objects
from runner.stores.objects.output import ObjectOutputSpec, open_folder, open_folder_results
from runner.stores.objects.spec import ObjectSpec

if TYPE_CHECKING:
    from obstore.store import GCSConfig

    from runner.stores.objects.cloud import ObjectStore

_SERVER: Final = "https://storage.googleapis.com"

_AS_STORED: Final = {"Accept-Encoding": "gzip"}
"""Without it, Google decompresses what is stored with Content-Encoding: gzip, and ignores ranges (decompressive transcoding). Lists
do not have it: they would be compressed."""


class WorkloadIdentity(StorageSpec):
    """How Google knows the Pod's service account."""

    audience: str = Field(min_length=1)
    service_account: str = Field(default="", alias="serviceAccount", pattern=r"^([\w.-]+@[\w.-]+)?$")


class GcsSpec(ObjectSpec):
    """Objects of a bucket."""

    label: ClassVar[str] = "gcs"

    bucket: str = Field(min_length=3, max_length=222, pattern=r"^[a-z0-9][a-z0-9._-]*[a-z0-9]$")
    workload_identity: WorkloadIdentity | None = Field(default=None, alias="workloadIdentity")

    @model_validator(mode="after")
    def _has_one_identity(self) -> Self:
        if self.workload_identity and self.credentials_ref:
            raise ValueError("credentialsRef and workloadIdentity exclude each other; remove one of them")
        return self

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.endpoint or _SERVER

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"gs://{self.bucket}"

    def cloud(self, folder: Path, *, field: str, error: type[RunnerError]) -> Cloud:
        """With the key in a mounted Secret, or the identity of the Pod's service account. Raises `error` for the Secret."""
        with naming_secret_field(f"{field}.credentialsRef", error):
            key = self._key(folder)
        if self.workload_identity is None:
            return Cloud(
                partial(self._open, key=key),
                access=f"{field}.credentialsRef and the permissions of its service account",
                upload=signed_upload if key else None,
                read_headers=_AS_STORED,
            )
        audience, account = self.workload_identity.audience, self.workload_identity.service_account
        token = folder / "token"
        if not token.exists():
            text = f"{field}.workloadIdentity: the Pod has no token; set serviceAccountName in its InferenceConfig"
            raise error(text, is_retryable=False)
        servers = google_servers(impersonates=bool(account))
        return Cloud(
            partial(self._open, tokens=partial(GoogleTokens, token, audience, account, servers, error=error)),
            access="the permissions of the Pod's service account, or of workloadIdentity.serviceAccount, on the bucket",
            identities=servers,
            upload=self._upload_with_token,
            read_headers=_AS_STORED,
        )

    def _open(
        self, transport: Transport, *, key: str = "", tokens: Callable[[Transport], GoogleTokens] | None = None
    ) -> GCSStore:
        config: GCSConfig = {"base_url": self.url}
        if tokens is None:
            config["service_account_key"] = key or NO_GCS_CREDENTIALS
        return GCSStore(
            self.bucket,
            config=config,
            credential_provider=tokens(transport) if tokens else None,
            client_options=transport.options,
            retry_config=transport.retries,
        )

    async def _upload_with_token(self, store: "ObjectStore", key: str) -> Upload:
        tokens = cast("GoogleTokens", store.credential_provider)
        token = (await tokens.fetch())["token"]
        return Upload(f"{self.url}/{self.bucket}/{quote(key)}", {"Authorization": f"Bearer {token}"})

    def _key(self, folder: Path) -> str:
        if self.credentials_ref is None:
            return ""
        secret = MountedSecret(folder, self.credentials_ref.name)
        text = secret.value(GCS_KEY, has_lines=True)
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not found.keys() >= {"client_email", "private_key", "private_key_id"}:
            raise ValueError(
                f"Secret {secret.name!r} has no key {GCS_KEY} with the key file of a Google service account"
            )
        return text


class GcsInputSpec(GcsSpec, ObjectInputSpec):
    """What is read of a bucket."""


class GcsOutputSpec(GcsSpec, ObjectOutputSpec):
    """The label under `output`."""


open_input = partial(open_objects, GcsInputSpec)
open_output = partial(open_folder, GcsOutputSpec)
open_results = partial(open_folder_results, GcsOutputSpec)
