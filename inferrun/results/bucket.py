"""Objects of a bucket. obstore is imported when a bucket is opened.

It repeats requests that fail, and finds credentials in the environment that are not keys, such as the token of a service account.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import urlsplit

from inferrun.formats.dataset import ListedFile
from inferrun.resources.storage import S3Storage
from inferrun.results.access import Access, load
from inferrun.results.errors import ResultsChanged, ResultsUnreachable

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3Store

_KEYS: Final = {
    "access_key_id": ("accessKeyId", "AWS_ACCESS_KEY_ID"),
    "secret_access_key": ("secretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    "session_token": ("sessionToken", "AWS_SESSION_TOKEN"),
}
"""The keys of a Secret, each under our name and under the name of Amazon's variables."""

_LOGINS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables of which one says that the environment has credentials."""

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_RETRY_SECONDS: Final = 60


class BucketFiles:
    """The objects of a bucket."""

    def __init__(self, storage: S3Storage, access: Access) -> None:
        """Raises ResultsUnreachable without credentials, and PackageMissing."""
        self._obstore = load("obstore", extra="results")
        self._bucket = storage.bucket
        endpoint = access.credentials.get("endpoint") or next(filter(None, map(access.environment.get, _ENDPOINTS)), "")
        self._endpoint = endpoint or storage.endpoint or ""
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
                    return [ListedFile(path, one["size"], one["e_tag"] or "")]
                except FileNotFoundError:
                    pass
            pages = list(self._obstore.list(self._store, prefix, chunk_size=1000))
        found = [ListedFile(one["path"], one["size"], one["e_tag"] or "") for page in pages for one in page]
        # Consoles create an object for the folder itself.
        return [one for one in found if f"{one.name}/" != prefix]

    def copy(self, name: str, out: BinaryIO) -> None:
        """Write the content of an object to a file."""
        with self._errors(name):
            for piece in self._obstore.get(self._store, name).stream(min_chunk_size=1 << 20):
                out.write(bytes(piece))

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
            raise ResultsChanged(f"s3://{self._bucket}/{name} exists already, with another content; it is not replaced")

    def _open(self, storage: S3Storage, access: Access) -> "S3Store":
        config: S3Config = {"region": storage.region or "us-east-1", "virtual_hosted_style_request": not self._endpoint}
        if self._endpoint:
            config["endpoint"] = self._endpoint
        config["request_payer"] = bool(storage.requester_pays)
        provider = None
        keys = {name for names in _KEYS.values() for name in names}
        is_keyless = any(map(access.environment.get, _LOGINS))
        if storage.credentials_ref is not None or is_keyless or not keys.isdisjoint(access.credentials):
            secret = storage.credentials_ref.name if storage.credentials_ref else ""
            fix = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            login = access.login(keys=keys, secret=secret, variables=_LOGINS, fix=fix)
            provider = _provider_of(login) if login is not None else None
        else:
            config["skip_signature"] = True
        store: S3Store = load("obstore.store", extra="results").S3Store(
            storage.bucket,
            config=config,
            credential_provider=provider,
            client_options={"allow_http": urlsplit(self._endpoint).scheme == "http"},
            retry_config={"retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        )
        return store

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        errors = load("obstore.exceptions", extra="results")
        where = f"s3://{self._bucket}/{name}"
        try:
            yield
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise ResultsUnreachable(f"{where}: access denied; check the access key and its permissions") from error
        except FileNotFoundError as error:
            raise ResultsUnreachable(f"{where}: the bucket does not exist, or the access key is unknown") from error
        except (errors.BaseError, OSError) as error:
            # The text of obstore contains the whole request.
            server = self._endpoint or "Amazon S3"
            raise ResultsUnreachable(
                f"{where}: {server} cannot be reached, or does not answer as expected ({type(error).__name__}); if it can be "
                "reached in the cluster only, forward its port, and set AWS_ENDPOINT_URL or pass endpoint in credentials="
            ) from error


def _provider_of(login: Mapping[str, str]) -> "Callable[[], S3Credential]":
    """Return what obstore asks for credentials. Parts of a login that are in the environment are then not used."""
    found = {name: next((login[key].strip() for key in keys if key in login), "") for name, keys in _KEYS.items()}
    if missing := [_KEYS[name][0] for name in ("access_key_id", "secret_access_key") if not found[name]]:
        raise ResultsUnreachable(f"the credentials for the bucket have no key {' and no key '.join(missing)}")
    credential: S3Credential = {
        "access_key_id": found["access_key_id"],
        "secret_access_key": found["secret_access_key"],
        "token": found["session_token"] or None,
        "expires_at": None,
    }
    return lambda: credential
