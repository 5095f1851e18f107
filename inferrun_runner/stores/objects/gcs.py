"""The label `gcs`: Google Cloud Storage."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote

from obstore.store import GCSStore

from inferrun.stores import GcsStorage
from inferrun.stores.gcs import NO_CREDENTIALS
from inferrun_runner.stores.objects.cloud import (
    Cloud,
    Mount,
    Transport,
    Upload,
    mounted_credentials,
    signed_upload,
)
from inferrun_runner.stores.objects.google_tokens import GoogleTokens, google_servers
from inferrun_runner.stores.objects.input import open_objects
from inferrun_runner.stores.objects.output import open_folder, open_folder_results

if TYPE_CHECKING:
    from obstore.store import GCSConfig

    from inferrun_runner.stores.objects.cloud import ObjectStore

_AS_STORED: Final = {"Accept-Encoding": "gzip"}
"""Without it, Google decompresses what is stored with Content-Encoding: gzip, and ignores ranges
(decompressive transcoding). Lists do not have it: they would be compressed."""


def gcs_cloud(spec: GcsStorage, mount: Mount) -> Cloud:
    """Access with the key in a mounted Secret, or the identity of the Pod's service account. Raises
    its error for the Secret."""
    key = mounted_credentials(spec, mount)
    if spec.workload_identity is None:
        return Cloud(
            partial(_open, spec, key=key or {"service_account_key": NO_CREDENTIALS}),
            access=f"{mount.field}.credentialsRef and the permissions of its service account",
            upload=signed_upload if key else None,
            read_headers=_AS_STORED,
        )
    audience, account = spec.workload_identity.audience, spec.workload_identity.service_account
    token = mount.folder / "token"
    if not token.exists():
        text = f"{mount.field}.workloadIdentity: the Pod has no token; set serviceAccountName in its InferenceConfig"
        raise mount.error(text, is_retryable=False)
    servers = google_servers(impersonates=bool(account))

    async def upload_with_token(store: "ObjectStore", key: str) -> Upload:
        tokens = cast("GoogleTokens", store.credential_provider)
        token = (await tokens.fetch())["token"]
        return Upload(
            f"{spec.url}/{spec.bucket}/{quote(key)}", {"Authorization": f"Bearer {token}"}
        )

    return Cloud(
        partial(
            _open,
            spec,
            tokens=partial(GoogleTokens, token, audience, account, servers, error=mount.error),
        ),
        access="the permissions of the Pod's service account, or of workloadIdentity.serviceAccount, on the bucket",
        identities=servers,
        upload=upload_with_token,
        read_headers=_AS_STORED,
    )


def _open(
    spec: GcsStorage,
    transport: Transport,
    *,
    key: Mapping[str, str] | None = None,
    tokens: Callable[[Transport], GoogleTokens] | None = None,
) -> GCSStore:
    return GCSStore(
        spec.bucket,
        config=cast("GCSConfig", {**spec.config(spec.url), **(key or {})}),
        credential_provider=tokens(transport) if tokens else None,
        client_options=transport.options,
        retry_config=transport.retries,
    )


open_input = partial(open_objects, GcsStorage, gcs_cloud)
open_output = partial(open_folder, GcsStorage, gcs_cloud)
open_results = partial(open_folder_results, GcsStorage, gcs_cloud)
