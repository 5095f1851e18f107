"""Objects of a bucket or a container. obstore is imported when one is opened.

It repeats requests that fail, and finds credentials in the environment that are not keys, such as the token of a service account.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, Final, TypedDict, cast
from urllib.parse import urlsplit

from inferrun.formats.dataset import ListedFile, quoted_tag
from inferrun.resources.storage import (
    AZURE_KEYS,
    GCS_KEY,
    NO_GCS_CREDENTIALS,
    S3_KEYS,
    AzureStorage,
    GcsStorage,
    ObjectStorage,
    S3Storage,
)
from inferrun.results.access import Access, load
from inferrun.results.errors import ResultsChanged, ResultsUnreachable

if TYPE_CHECKING:
    from obstore.store import (
        AzureConfig,
        AzureStore,
        ClientConfig,
        GCSConfig,
        GCSStore,
        RetryConfig,
        S3Config,
        S3Credential,
        S3Store,
    )

_RETRY_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class _Cloud:
    """Where credentials and servers of a cloud come from."""

    name: str
    keys: frozenset[str]
    """The keys of a Secret."""

    logins: tuple[str, ...]
    """Variables of which one says that the environment has credentials."""

    endpoints: tuple[str, ...]
    """Variables that name the server."""


_CLOUDS: Final[dict[type[ObjectStorage], _Cloud]] = {
    S3Storage: _Cloud(
        "Amazon S3",
        frozenset(name for names in S3_KEYS.values() for name in names),
        (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ),
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    ),
    GcsStorage: _Cloud(
        "Google Cloud Storage",
        frozenset({GCS_KEY}),
        ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("STORAGE_EMULATOR_HOST",),
    ),
    AzureStorage: _Cloud(
        "Azure Blob Storage",
        frozenset(name for names in AZURE_KEYS.values() for name in names),
        (
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_CLIENT_SECRET",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_USE_AZURE_CLI",
        ),
        ("AZURE_STORAGE_ENDPOINT",),
    ),
}


class _Options(TypedDict):
    client_options: "ClientConfig"
    retry_config: "RetryConfig"
    skip_signature: bool


class BucketFiles:
    """The objects of a bucket or a container."""

    def __init__(self, storage: ObjectStorage, access: Access) -> None:
        """Raises ResultsUnreachable without credentials, and PackageMissing."""
        self._obstore = load("obstore", extra="results")
        self._root = storage.root
        self._cloud = _CLOUDS[type(storage)]
        variables = map(access.environment.get, self._cloud.endpoints)
        named = (access.credentials.get("endpoint"), *variables, storage.endpoint)
        self._endpoint = next(filter(None, named), "")
        self._store = self._open(storage, access)

    def read(self, name: str, *, size: int | None = None) -> bytes | None:
        """Return the content of an object; None if it does not exist, or has another size than given."""
        with self._errors(name):
            try:
                found = self._obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()) if size in (None, found.meta["size"]) else None

    def find(self, path: str) -> list[ListedFile]:
        """Return the object of that key, or those below that prefix."""
        prefix = f"{path.rstrip('/')}/" if path else ""
        with self._errors(path):
            if prefix != path:
                try:
                    one = self._obstore.head(self._store, path)
                    return [ListedFile(path, one["size"], quoted_tag(one["e_tag"]))]
                except FileNotFoundError:
                    pass
            pages = list(self._obstore.list(self._store, prefix, chunk_size=1000))
        found = [ListedFile(one["path"], one["size"], quoted_tag(one["e_tag"])) for page in pages for one in page]
        # Consoles create an object for the folder itself.
        return [one for one in found if f"{one.name}/" != prefix]

    def copy(self, name: str, out: BinaryIO) -> str:
        """Write the content of an object to a file, and return its Content-Encoding."""
        with self._errors(name):
            found = self._obstore.get(self._store, name)
            for piece in found.stream(min_chunk_size=1 << 20):
                out.write(bytes(piece))
            return str(found.attributes.get("Content-Encoding", ""))

    def create(self, name: str, content: bytes) -> None:
        """Store an object, unless it is there already. Raises ResultsChanged if it has another content."""
        exists = load("obstore.exceptions", extra="results").AlreadyExistsError
        with self._errors(name):
            try:
                self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
                return
            except exists:
                found = self.read(name, size=len(content))
        if found != content:
            raise ResultsChanged(f"{self._root}/{name} exists already, with another content; it is not replaced")

    def _open(self, storage: ObjectStorage, access: Access) -> "S3Store | GCSStore | AzureStore":
        keys, variables, ref = self._cloud.keys, self._cloud.logins, storage.credentials_ref
        has_variables = any(map(access.environment.get, variables))
        login, has_login = None, ref is not None or has_variables or not keys.isdisjoint(access.credentials)
        if has_login:
            login = access.login(keys=keys, secret=ref.name if ref else "", variables=variables, fix=variables[0])
        options: _Options = {
            "client_options": {"allow_http": urlsplit(self._endpoint).scheme == "http"},
            "retry_config": {"retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            "skip_signature": not has_login,
        }
        try:
            match storage:
                case GcsStorage():
                    return _open_gcs(storage, self._endpoint, login, options)
                case AzureStorage():
                    return _open_azure(storage, self._endpoint, login, options)
                case _:
                    return _open_s3(cast("S3Storage", storage), self._endpoint, login, options)
        except load("obstore.exceptions", extra="results").BaseError as error:
            raise ResultsUnreachable(f"the credentials for {self._root} cannot be used; check their form") from error

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        errors = load("obstore.exceptions", extra="results")
        where = f"{self._root}/{name}"
        try:
            yield
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise ResultsUnreachable(f"{where}: access denied; check the credentials and their permissions") from error
        except FileNotFoundError as error:
            raise ResultsUnreachable(
                f"{where}: the bucket or container does not exist, or the access key is unknown"
            ) from error
        except (errors.BaseError, OSError) as error:
            # The text of obstore contains the whole request.
            server = self._endpoint or self._cloud.name
            raise ResultsUnreachable(
                f"{where}: {server} cannot be reached, or does not answer as expected ({type(error).__name__}); if it can be "
                f"reached in the cluster only, forward its port, and set {self._cloud.endpoints[-1]} or pass endpoint in "
                "credentials="
            ) from error


def _open_s3(storage: S3Storage, endpoint: str, login: Mapping[str, str] | None, options: _Options) -> "S3Store":
    config: S3Config = {"region": storage.region or "us-east-1", "virtual_hosted_style_request": not endpoint}
    if endpoint:
        config["endpoint"] = endpoint
    config["request_payer"] = bool(storage.requester_pays)
    provider = _provider_of(login) if login is not None else None
    store: S3Store = load("obstore.store", extra="results").S3Store(
        storage.bucket, config=config, credential_provider=provider, **options
    )
    return store


def _provider_of(login: Mapping[str, str]) -> "Callable[[], S3Credential]":
    """Return what obstore asks for credentials. Parts of a login that are in the environment are then not used."""
    found = {name: next((login[key].strip() for key in keys if key in login), "") for name, keys in S3_KEYS.items()}
    if missing := [S3_KEYS[name][0] for name in ("access_key_id", "secret_access_key") if not found[name]]:
        raise ResultsUnreachable(f"the credentials for the bucket have no key {' and no key '.join(missing)}")
    credential: S3Credential = {
        "access_key_id": found["access_key_id"],
        "secret_access_key": found["secret_access_key"],
        "token": found["session_token"] or None,
        "expires_at": None,
    }
    return lambda: credential


def _open_gcs(storage: GcsStorage, endpoint: str, login: Mapping[str, str] | None, options: _Options) -> "GCSStore":
    config: GCSConfig = {"base_url": endpoint} if endpoint else {}
    if login is not None:
        if GCS_KEY not in login:
            raise ResultsUnreachable(f"the credentials for the bucket have no key {GCS_KEY}")
        config["service_account_key"] = login[GCS_KEY]
    elif options["skip_signature"]:
        config["service_account_key"] = NO_GCS_CREDENTIALS
    store: GCSStore = load("obstore.store", extra="results").GCSStore(storage.bucket, config=config, **options)
    return store


def _open_azure(
    storage: AzureStorage, endpoint: str, login: Mapping[str, str] | None, options: _Options
) -> "AzureStore":
    config: AzureConfig = {"account_name": storage.account}
    if endpoint:
        config["endpoint"] = endpoint
    if login is not None:
        kind, keys = next((one for one in AZURE_KEYS.items() if one[1].keys() <= login.keys()), ("", {}))
        if not kind:
            forms = ", or ".join(" and ".join(one) for one in AZURE_KEYS.values())
            raise ResultsUnreachable(f"the credentials for the container lack keys: {forms}")
        found = {name: login[key].strip() for key, name in keys.items()}
        config |= cast("AzureConfig", {"credential_type": kind, **found})
    store: AzureStore = load("obstore.store", extra="results").AzureStore(storage.container, config=config, **options)
    return store
