"""The label `s3`: Amazon S3 and servers that are compatible with it."""

import os
from functools import partial
from typing import TYPE_CHECKING, cast

from obstore.store import S3Store

from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.cloud import (
    Cloud,
    Mount,
    Transport,
    mounted_credentials,
    signed_upload,
)
from inferrun_runner.stores.objects.input import open_objects
from inferrun_runner.stores.objects.output import open_folder, open_folder_results

if TYPE_CHECKING:
    from obstore.store import S3Config


def s3_cloud(spec: S3Storage, mount: Mount) -> Cloud:
    """Access with the key in a mounted Secret, or the role of the Pod's service account. Raises its
    error for the Secret."""
    key = mounted_credentials(spec, mount)
    identity = "" if key else _identity(spec.region)
    is_signed = bool(key or identity)
    config = {**spec.config(spec.endpoint), **key, "skip_signature": not is_signed}
    if spec.kms_key_id:
        config |= {"server_side_encryption": "aws:kms", "sse_kms_key_id": spec.kms_key_id}

    def open_store(transport: Transport, *, is_bulk: bool = False) -> S3Store:
        deletes = cast("S3Config", {**config, "disable_bulk_delete": not is_bulk})
        return S3Store(
            spec.bucket,
            config=deletes,
            client_options=transport.options,
            retry_config=transport.retries,
        )

    of_key = f"{mount.field}.credentialsRef and the permissions of its access key"
    return Cloud(
        open_store,
        access="the permissions of the role of the Pod's service account" if identity else of_key,
        identities=(identity,) if identity else (),
        trust="the trust policy of its role",
        open_bulk=partial(open_store, is_bulk=True),
        upload=signed_upload if is_signed and not spec.kms_key_id else None,  # the key is a header
    )


def _identity(region: str) -> str:
    """Return the URL at which obstore exchanges the token of the Pod's service account for
    credentials; empty without a role.

    EKS sets the variables, which obstore reads: those of a web identity (IRSA), or of the agent of
    EKS Pod Identity.
    """
    if os.environ.keys() >= {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"}:
        return os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    agent = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    return agent if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in os.environ else ""


open_input = partial(open_objects, S3Storage, s3_cloud)
open_output = partial(open_folder, S3Storage, s3_cloud)
open_results = partial(open_folder_results, S3Storage, s3_cloud)
