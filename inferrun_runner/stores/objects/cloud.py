"""What a bucket needs to know about its cloud: how its store is opened, and how files and
credentials get there."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import obstore

from inferrun.plugins import RunnerError
from inferrun.plugins.storage import MountedSecret, naming_secret_field
from inferrun.stores import GcsStorage, ObjectStorage
from inferrun_runner.network.http_client import AiohttpClient

if TYPE_CHECKING:
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Store

    ObjectStore: TypeAlias = S3Store | GCSStore | AzureStore

_SIGNED: Final = timedelta(hours=1)
"""How long a signed address is valid."""


@dataclass(frozen=True, slots=True)
class Transport:
    """How a store sends requests."""

    client: AiohttpClient
    """The runner's client, for what obstore cannot send."""

    options: "ClientConfig"
    retries: "RetryConfig"
    retry_seconds: float


@dataclass(frozen=True, slots=True)
class Upload:
    """A request that stores a file, without its body."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)


if TYPE_CHECKING:
    MakeUpload: TypeAlias = Callable[[ObjectStore, str], Awaitable[Upload]]


@dataclass(frozen=True, slots=True)
class Cloud:
    """How requests to a bucket are authorized, and where they go."""

    open_store: "Callable[[Transport], ObjectStore]"
    access: str
    """What to check if access is denied."""

    identities: tuple[str, ...] = ()
    """The URLs at which the token of the Pod's service account is exchanged for credentials."""

    trust: str = ""
    """What to check if they give none."""

    upload: "MakeUpload | None" = None
    """Returns the request that stores a file under a key; without it, obstore sends large files in
    parts."""

    open_bulk: "Callable[[Transport], ObjectStore] | None" = None
    """Opens a store that deletes many objects by one request, where not every server has it."""

    read_headers: Mapping[str, str] = field(default_factory=dict)
    """What requests for objects have, so that the stored bytes are returned."""


async def signed_upload(store: "ObjectStore", key: str) -> Upload:
    """An address that obstore has signed."""
    return Upload(await obstore.sign_async(store, "PUT", key, _SIGNED))


@dataclass(frozen=True, slots=True)
class Mount:
    """Where the Secret of a storage object is mounted, and how errors name it."""

    folder: Path
    field: str
    """The storage object in the contract, such as `input.s3`."""

    error: type[RunnerError]


Wanted = TypeVar("Wanted", bound=ObjectStorage)

FindCloud: TypeAlias = Callable[[Wanted, Mount], Cloud]
"""Says how a bucket is reached: with the credentials in a Secret, or those of the Pod's service
account. Raises the error of the mount."""


def mounted_credentials(spec: ObjectStorage, mount: Mount) -> dict[str, str]:
    """What obstore is told about the Secret; empty without one. Raises the error of the mount, with
    the Secret."""
    if spec.credentials_ref is None:
        return {}
    secret = MountedSecret(mount.folder, spec.credentials_ref.name)
    with naming_secret_field(f"{mount.field}.credentialsRef", mount.error):
        is_file = isinstance(spec, GcsStorage)
        values = secret.values(spec.secret_keys, is_ascii=not is_file, has_lines=is_file)
        return spec.credentials(values, whose=f"Secret {secret.name!r}")
