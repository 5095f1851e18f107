"""Objects of a bucket or a container. obstore is imported when one is opened.

It repeats requests that fail, and finds credentials in the environment that are not keys, such as
the token of a service account.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from inferrun.formats.dataset import ListedFile, quoted_tag
from inferrun.results.access import Access, load
from inferrun.results.errors import ResultsChanged, ResultsUnreachable
from inferrun.stores import GcsStorage, ObjectStorage, S3Storage
from inferrun.stores.gcs import NO_CREDENTIALS

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

_RETRY_SECONDS: Final = 60


class BucketFiles:
    """The objects of a bucket or a container."""

    def __init__(self, storage: ObjectStorage, access: Access) -> None:
        """Raises ResultsUnreachable without credentials, and PackageMissing."""
        self._obstore = load("obstore")
        self._root = storage.root
        self._storage = storage
        variables = map(access.environment.get, storage.endpoint_variables)
        named = (access.credentials.get("endpoint"), *variables, storage.endpoint)
        self._endpoint = next(filter(None, named), "")
        self._store = self._open(storage, access)

    def read(self, name: str, *, size: int | None = None) -> bytes | None:
        """Return the content of an object; None if it does not exist, or has another size than
        given."""
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
        found = [
            ListedFile(one["path"], one["size"], quoted_tag(one["e_tag"]))
            for page in pages
            for one in page
        ]
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
        """Store an object, unless it is there already. Raises ResultsChanged if it has another
        content."""
        exists = load("obstore.exceptions").AlreadyExistsError
        with self._errors(name):
            try:
                self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
                return
            except exists:
                found = self.read(name, size=len(content))
        if found != content:
            raise ResultsChanged(
                f"{self._root}/{name} exists already, with another content; it is not replaced"
            )

    def _open(self, storage: ObjectStorage, access: Access) -> "S3Store | GCSStore | AzureStore":
        keys, variables, ref = storage.secret_keys, storage.login_variables, storage.credentials_ref
        has_variables = any(map(access.environment.get, variables))
        login = None
        has_login = (
            ref is not None or has_variables or not access.credentials.keys().isdisjoint(keys)
        )
        if has_login:
            login = access.login(
                keys=keys, secret=ref.name if ref else "", variables=variables, fix=variables[0]
            )
        options: dict[str, Any] = {  # Any: obstore's
            "config": storage.config(self._endpoint),
            "client_options": {"allow_http": urlsplit(self._endpoint).scheme == "http"},
            "retry_config": {"retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            "skip_signature": not has_login,
        }
        try:
            given = (
                storage.credentials(login, whose=f"the login for the {storage.place}")
                if login is not None
                else {}
            )
        except ValueError as error:
            raise ResultsUnreachable(str(error)) from error
        if given and isinstance(storage, S3Storage):
            # Parts of a login that are in the environment are then not used.
            token, expires = given.pop("session_token", None), {"expires_at": None}
            options["credential_provider"] = lambda: {**given, "token": token, **expires}
        else:
            options["config"] |= given
        if isinstance(storage, GcsStorage) and not has_login:
            options["config"]["service_account_key"] = NO_CREDENTIALS
        try:
            opened = getattr(load("obstore.store"), storage.store_class)(
                storage.container_name, **options
            )
        except load("obstore.exceptions").BaseError as error:
            raise ResultsUnreachable(
                f"the credentials for {self._root} cannot be used; check their form"
            ) from error
        return cast("S3Store | GCSStore | AzureStore", opened)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        errors = load("obstore.exceptions")
        where = f"{self._root}/{name}"
        try:
            yield
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise ResultsUnreachable(
                f"{where}: access denied; check the credentials and their permissions"
            ) from error
        except FileNotFoundError as error:
            raise ResultsUnreachable(
                f"{where}: the bucket or container does not exist, or the access key is unknown"
            ) from error
        except (errors.BaseError, OSError) as error:
            # The text of obstore contains the whole request.
            server = self._endpoint or self._storage.service
            raise ResultsUnreachable(
                f"{where}: {server} cannot be reached, or does not answer as expected ({type(error).__name__}); if it can be "
                f"reached in the cluster only, forward its port, and set {self._storage.endpoint_variables[-1]} or pass "
                "endpoint in credentials="
            ) from error
