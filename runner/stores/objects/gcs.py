"""The label `gcs`: Google Cloud Storage.

The storage object has `bucket`, `path`, `endpoint`, `credentialsRef{name}`, `workloadIdentity{audience, serviceAccount}` and
`format`.
"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self, cast
from urllib.parse import quote

from obstore.store import GCSStore
from pydantic import Field, model_validator

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedSecret, StorageSpec, naming_secret_field
from runner.stores.objects.cloud import Cloud, Transport, Upload, signed_upload
from runner.stores.objects.google_tokens import GoogleTokens, google_servers
from runner.stores.objects.input import ObjectInputSpec, open_objects
from runner.stores.objects.output import ObjectOutputSpec, open_folder, open_folder_results
from runner.stores.objects.spec import ObjectSpec

if TYPE_CHECKING:
    from obstore.store import GCSConfig

    from runner.stores.objects.cloud import ObjectStore

_SERVER: Final = "https://storage.googleapis.com"
_KEY: Final = "credentials.json"
_NO_KEY: Final = json.dumps(
    {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": "", "gcs_base_url": ""}
)
"""Requests without credentials. With `skip_signature`, obstore would still ask the metadata service of the node for some."""


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
            )
        servers, token = google_servers(impersonates=bool(self.workload_identity.service_account)), folder / "token"
        if not token.exists():
            text = f"{field}.workloadIdentity: the Pod has no token; set serviceAccountName in its InferenceConfig"
            raise error(text, is_retryable=False)
        return Cloud(
            partial(self._open, token_file=token, error=error),
            access="the permissions of the Pod's service account, or of workloadIdentity.serviceAccount, on the bucket",
            identities=servers,
            upload=self._upload_with_token,
        )

    def _open(
        self,
        transport: Transport,
        *,
        key: str = "",
        token_file: Path | None = None,
        error: type[RunnerError] = RunnerError,
    ) -> GCSStore:
        config: GCSConfig = {"base_url": self.url}
        identity, tokens = self.workload_identity, None
        config["service_account_key"] = key or _NO_KEY
        if identity and token_file:
            tokens = GoogleTokens(token_file, identity.audience, identity.service_account, transport, error=error)
            del config["service_account_key"]
        return GCSStore(
            self.bucket,
            config=config,
            credential_provider=tokens,
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
        text = secret.value(_KEY, has_lines=True)
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not found.keys() >= {"client_email", "private_key", "private_key_id"}:
            raise ValueError(f"Secret {secret.name!r} has no key {_KEY} with the key file of a Google service account")
        return text


class GcsInputSpec(GcsSpec, ObjectInputSpec):
    """What is read of a bucket."""


class GcsOutputSpec(GcsSpec, ObjectOutputSpec):
    """The label under `output`."""


open_input = partial(open_objects, GcsInputSpec)
open_output = partial(open_folder, GcsOutputSpec)
open_results = partial(open_folder_results, GcsOutputSpec)
