"""The label `s3`: Amazon S3 and servers that are compatible with it.

The storage object has `bucket`, `path`, `endpoint`, `region`, `credentialsRef{name}`, `kmsKeyId`, `requesterPays` and `format`.
"""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from obstore.store import S3Store
from pydantic import Field

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedSecret, naming_secret_field
from inferrun.resources.storage import S3_KEYS
from runner.stores.objects.cloud import Cloud, Transport, signed_upload
from runner.stores.objects.input import ObjectInputSpec, open_objects
from runner.stores.objects.output import ObjectOutputSpec, open_folder, open_folder_results
from runner.stores.objects.spec import ObjectSpec

if TYPE_CHECKING:
    from obstore.store import S3Config


class S3Spec(ObjectSpec):
    """Objects of a bucket."""

    label: ClassVar[str] = "s3"

    bucket: str = Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")
    region: str = "us-east-1"
    kms_key_id: str = Field(default="", alias="kmsKeyId")
    requester_pays: bool = Field(default=False, alias="requesterPays")

    @property
    def url(self) -> str:
        """The URL of the server: `endpoint`, or Amazon's for this bucket."""
        return self.endpoint or f"https://{self.bucket}.s3.{self.region}.amazonaws.com"

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"s3://{self.bucket}"

    def cloud(self, folder: Path, *, field: str, error: type[RunnerError]) -> Cloud:
        """With the credentials in a mounted Secret, or those of the Pod's service account. Raises `error` for the Secret."""
        with naming_secret_field(f"{field}.credentialsRef", error):
            config: S3Config = self._credentials(folder)
        identity = "" if config else _identity(self.region)
        is_signed = bool(config or identity)
        config["skip_signature"] = not is_signed
        config["region"] = self.region
        config["request_payer"] = self.requester_pays
        if self.kms_key_id:
            config |= {"server_side_encryption": "aws:kms", "sse_kms_key_id": self.kms_key_id}
        config["virtual_hosted_style_request"] = not self.endpoint
        if self.endpoint:
            config["endpoint"] = self.endpoint

        def open_store(transport: Transport, *, is_bulk: bool = False) -> S3Store:
            deletes: S3Config = {**config, "disable_bulk_delete": not is_bulk}
            return S3Store(
                self.bucket, config=deletes, client_options=transport.options, retry_config=transport.retries
            )

        of_key = f"{field}.credentialsRef and the permissions of its access key"
        return Cloud(
            open_store,
            access="the permissions of the role of the Pod's service account" if identity else of_key,
            identities=(identity,) if identity else (),
            trust="the trust policy of its role",
            open_bulk=partial(open_store, is_bulk=True),
            upload=signed_upload if is_signed and not self.kms_key_id else None,  # the key is a header
        )

    def _credentials(self, folder: Path) -> "S3Config":
        if self.credentials_ref is None:
            return {}
        secret = MountedSecret(folder, self.credentials_ref.name)
        found = {name: secret.value(*keys, is_ascii=True) for name, keys in S3_KEYS.items()}
        missing = [S3_KEYS[name][0] for name in ("access_key_id", "secret_access_key") if not found[name]]
        if missing:
            raise ValueError(f"Secret {secret.name!r} has no key {' and no key '.join(missing)}")
        config: S3Config = {
            "access_key_id": found["access_key_id"],
            "secret_access_key": found["secret_access_key"],
        }
        if found["session_token"]:
            config["session_token"] = found["session_token"]
        return config


class S3InputSpec(S3Spec, ObjectInputSpec):
    """What is read of a bucket."""


class S3OutputSpec(S3Spec, ObjectOutputSpec):
    """The label under `output`."""


def _identity(region: str) -> str:
    """Return the URL at which obstore exchanges the token of the Pod's service account for credentials; empty without a role.

    EKS sets the variables, which obstore reads: those of a web identity (IRSA), or of the agent of EKS Pod Identity.
    """
    if os.environ.keys() >= {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"}:
        return os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    agent = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    return agent if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in os.environ else ""


open_input = partial(open_objects, S3InputSpec)
open_output = partial(open_folder, S3OutputSpec)
open_results = partial(open_folder_results, S3OutputSpec)
