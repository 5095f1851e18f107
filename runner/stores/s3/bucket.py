"""A bucket, as the s3 input and output use it. Only this module imports obstore.

obstore retries requests that are safe to repeat. A conditional write whose response is lost may be repeated and then finds its own
object, so the content is compared. A conflict (409) means that another request for the key is in progress at the same time. obstore
takes it for an object that exists and does not repeat the write: that is done here. Credentials come from the mounted Secret;
without one, obstore gets those of the role of the Pod's service account, again before they expire; without a role, requests are not
signed. The credentials of the node are never asked for.

obstore resolves names itself and follows the redirects of reads. So the addresses of the servers are checked before the bucket is
used, and a redirect to another host leads to a proxy that does not exist. What a name resolves to later is left to network
policies.

A process that is killed while obstore uploads a file in parts leaves these behind, where no list shows them. So a large file is
sent in one request, from the disk, to an address that obstore has signed.
"""

import asyncio
import os
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store
from yarl import URL

from inferrun.formats.dataset import ListedFile
from inferrun.plugins import Fault, FaultKind, Limits, RunnerError
from inferrun.plugins.http import ExchangeFailed, read_start
from inferrun.plugins.limits import KIB, MIB
from inferrun.plugins.storage import MountedSecret, naming_secret_field
from runner.network.connections import CONNECT_SECONDS, AddressRefused, open_connections
from runner.network.http_client import HttpClient, whole_timeout
from runner.network.network_failures import describe_connect_timeout, describe_unresolved
from runner.network.retries import with_blocking_retries
from runner.stores.s3.spec import S3Spec

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import S3Config

_KEYS = {
    "access_key_id": ("accessKeyId", "AWS_ACCESS_KEY_ID"),
    "secret_access_key": ("secretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    "session_token": ("sessionToken", "AWS_SESSION_TOKEN"),
}
"""The keys of the Secret, each under our name and under the name of Amazon's variables."""

_SHORTEST_RETRY_SECONDS = 1.0
"""Even without retries for the model server, a failure of a moment must not end an attempt."""

_RETRIES: Final = 100_000
"""No limit but the time: obstore's waits are random, and ten retries, its default, may be over within four seconds."""

_EXPIRED: Final = re.compile(r"<Code>(ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>")
"""What servers say in a response 400 to credentials that have expired."""

_FOR_CREDENTIALS: Final = "Error performing POST REDACTED"
"""What obstore says about a request to the service that gives credentials, because its query contains the token."""

_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")

_CUT_OFF: Final = "response body error"
"""What obstore says about a response that was cut off, or stalled for too long."""

_PIECE: Final = 4 * MIB

_LARGEST_REQUEST: Final = 1024 * MIB
"""Larger files are uploaded in parts: one request might not end within `handler_timeout`, and its limit is 5 GiB."""

_SIGNED: Final = timedelta(hours=1)

_STATUS = re.compile(r"non-2xx status code: (\d{3})")

_NOT_CONNECTED: Final = re.compile(
    r'"(dns|tcp connect) error",(?:\s*(127\.0\.0\.1:1),)?.*?(?:message: "([^"]{1,80})"|kind: (TimedOut))', re.DOTALL
)
"""What obstore says about a failed connection: the stage, the proxy that does not exist, and the system's text."""

_NOWHERE: Final = "http://127.0.0.1:1"
"""The proxy for every other host than the endpoint's. Nothing listens there; the environment's proxies are not used either."""


T = TypeVar("T")


class Bucket:
    """Reads and writes whole objects and ranges. Methods block and raise the given error with the location and the fix."""

    def __init__(
        self,
        spec: S3Spec,
        store: S3Store,
        client: HttpClient,
        *,
        identity: str,
        side: str,
        error: type[RunnerError],
        retry_seconds: float,
    ) -> None:
        """Files are sent in the event loop that is running now. `identity`: the URL that the credentials come from, if any."""
        self._spec = spec
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._retry_seconds = retry_seconds
        self._store = store
        self._side = side
        self._error = error
        self._identity = identity
        of_key = f"{side}.s3.credentialsRef and the permissions of its access key"
        self._access = "the permissions of the role of the Pod's service account" if identity else of_key

    def head(self, key: str) -> ListedFile | None:
        """Return an object's description, or None if there is no such object."""
        with self._errors(key):
            try:
                found = obstore.head(self._store, key)
            except FileNotFoundError:
                return None
            return ListedFile(key, size=found["size"], tag=found["e_tag"] or "")

    def list_below(self, prefix: str) -> list[ListedFile]:
        """Return all objects below a prefix, sorted by key."""
        pages = self._read(prefix, lambda: list(obstore.list(self._store, prefix, chunk_size=1000)))
        found = (ListedFile(one["path"], one["size"], one["e_tag"] or "") for page in pages for one in page)
        return sorted(found, key=lambda one: one.name)

    def read(self, key: str) -> bytes | None:
        """Return the content of a small object, or None if there is no such object."""

        def get() -> bytes | None:
            try:
                return bytes(obstore.get(self._store, key).bytes())
            except FileNotFoundError:
                return None

        return self._read(key, get)

    def read_range(self, key: str, start: int, length: int, *, tag: str = "") -> bytes:
        """Return a part of an object. Raises the given error if it has another tag."""
        options: GetOptions = {"range": (start, start + length)}
        if tag:
            options["if_match"] = tag

        def get() -> bytes:
            try:
                found = obstore.get(self._store, key, options=options)
                is_same = not tag or found.meta["e_tag"] == tag  # some servers ignore the condition
            except PreconditionError:
                is_same = False
            if not is_same:
                text = f"{self._where(key)} changed while it was being read; start a new run"
                raise self._error(text, is_retryable=False)
            return bytes(found.bytes())

        return self._read(key, get)

    def pieces(self, key: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object of that size, in ranges; nothing if there is no such object."""

        def get(start: int) -> bytes:
            try:
                return bytes(obstore.get_range(self._store, key, start=start, end=min(start + _PIECE, size)))
            except FileNotFoundError:
                return b""

        for start in range(0, size, _PIECE):
            yield self._read(key, partial(get, start))

    def _read(self, key: str, get: Callable[[], T]) -> T:
        """Read something, again if the response was cut off. obstore itself repeats what fails before the response begins."""

        def attempt() -> T:
            with self._errors(key):
                try:
                    return get()
                except GenericError as error:
                    if _CUT_OFF not in str(error):
                        raise
                    text = f"{self._where(key)}: the response was truncated; check {self._side}.s3.endpoint"
                    raise Fault(self._error(text), kind=FaultKind.LOST) from error

        return with_blocking_retries(attempt, budget=self._retry_seconds)

    def create(self, key: str, content: bytes) -> bool:
        """Store an object unless the key exists; False if it does, with another content."""

        def attempt() -> bool:
            with self._errors(key):
                try:
                    obstore.put(self._store, key, content, mode="create", use_multipart=False)
                except AlreadyExistsError as error:
                    found = self.read(key)
                    if found is None:
                        raise self._conflict(key, error) from error
                    return found == content  # the response to an earlier try may have been lost
                return True

        return with_blocking_retries(attempt, budget=self._retry_seconds)

    def put(self, key: str, content: bytes | Path) -> None:
        """Store bytes or a file, whether or not the key exists."""
        size = content.stat().st_size if isinstance(content, Path) else 0
        can_sign = bool(self._spec.credentials_ref or self._identity) and not self._spec.kms_key_id  # which is a header
        is_sent = _PIECE < size <= _LARGEST_REQUEST and can_sign

        def attempt() -> None:
            with self._errors(key):
                try:
                    if isinstance(content, Path) and is_sent:
                        asyncio.run_coroutine_threadsafe(self._send(key, content, size=size), self._loop).result()
                    else:
                        obstore.put(self._store, key, content)
                except AlreadyExistsError as error:
                    raise self._conflict(key, error) from error

        with_blocking_retries(attempt, budget=self._retry_seconds)

    async def _send(self, key: str, path: Path, *, size: int) -> None:
        url = URL(await obstore.sign_async(self._store, "PUT", key, _SIGNED), encoded=True)
        with path.open("rb") as content:
            try:
                headers = {"Content-Length": str(size)}
                async with self._client.stream("PUT", url, headers=headers, body=content) as response:
                    body = await read_start(response, 4 * KIB)
            except ExchangeFailed as error:
                raise error.fault(self._error(f"{self._where(key)}: {error}")) from None
        if response.status != 200:
            failed = GenericError(f"non-2xx status code: {response.status} {body.decode(errors='replace')}")
            kind = FaultKind.BUSY if response.status in {409, 429} or response.status >= 500 else FaultKind.FAILED
            raise Fault(self._error(f"{self._where(key)}: {self._failure(failed)}"), kind=kind)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; a missing one is ignored."""
        if keys:
            with self._errors(keys[0]):
                obstore.delete(self._store, list(keys))

    def check(self, folder: str) -> None:
        """Verify that a conditional write is rejected if the key exists: old servers ignore the condition."""
        key = f"{folder}/probe-{uuid.uuid4().hex}"
        try:
            if not self.create(key, b"1") or self.create(key, b"2"):
                raise self._error(
                    f"{self._side}.s3: the server of s3://{self._spec.bucket}/{folder} does not support conditional writes "
                    "(If-None-Match), so chunks cannot be committed exactly once; use another server, or the file label",
                    is_retryable=False,
                )
        finally:
            self.delete([key])

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        where = self._where(key)
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise self._error(f"{where}: access denied; check {self._access}") from error
        except FileNotFoundError as error:
            raise self._error(
                f"{where}: bucket or object does not exist, or the access key is unknown; check {self._side}.s3.bucket, path and "
                "credentialsRef"
            ) from error
        except InvalidPathError as error:
            raise self._error(
                f"{where}: contains an object whose key has an empty part, as in a//b, or a control character; rename it",
                is_retryable=False,
            ) from error
        except (BaseError, OSError) as error:
            raise self._error(f"{where}: {self._failure(error)}") from error

    def _where(self, key: str) -> str:
        return f"{self._side}.s3: s3://{self._spec.bucket}/{key}"

    def _conflict(self, key: str, error: AlreadyExistsError) -> Fault:
        return Fault(self._error(f"{self._where(key)}: {self._failure(error)}"), kind=FaultKind.BUSY)

    def _failure(self, error: Exception) -> str:
        """Describe a failure. The client's text is not shown: it contains the URL and what the server sent."""
        text = str(error)
        is_for_credentials = bool(self._identity) and (_FOR_CREDENTIALS in text or self._identity in text)
        url = self._identity if is_for_credentials else self._spec.url
        if connecting := _NOT_CONNECTED.search(text):
            stage, proxy, reason, timeout = connecting.groups()
            if proxy:
                return "it redirects to another server, which is not followed; use that server's address"
            if stage == "dns":
                return describe_unresolved(urlsplit(url).hostname or "")
            if timeout:
                return describe_connect_timeout(CONNECT_SECONDS)
            return f"cannot connect to {url}: {reason}; check that the server is running and ready"
        if expired := _EXPIRED.search(text):
            return f"the server returned {expired[1]}; renew the credentials in the Secret of {self._side}.s3.credentialsRef"
        found = _STATUS.search(text)
        what = f"the server returned {found[1]}" if found else f"the request failed ({type(error).__name__})"
        bucket = f"{self._side}.s3.bucket and " if found and found[1] == "404" else ""
        fix = f"{bucket}{self._side}.s3.endpoint"
        if is_for_credentials:
            code = _CODE.search(text)
            what = f"no credentials from {url} for the Pod's service account: {what}{f' ({code[1]})' if code else ''}"
            fix = "the trust policy of its role"
        return f"{what}; check {fix}"


@asynccontextmanager
async def open_bucket(
    spec: S3Spec, folder: Path, limits: Limits, *, side: str, error: type[RunnerError]
) -> AsyncIterator[Bucket]:
    """Open a bucket with the credentials in a mounted Secret, or those of the Pod's service account.

    Raises `error` if the Secret is incomplete, or if runs must not connect to a server.
    """
    with naming_secret_field(f"{side}.s3.credentialsRef", error):
        config: S3Config = _credentials(spec, folder)
    identity = "" if config else _identity(spec.region)
    config["skip_signature"] = not (config or identity)
    config["region"] = spec.region
    config["request_payer"] = spec.requester_pays
    if spec.kms_key_id:
        config |= {"server_side_encryption": "aws:kms", "sse_kms_key_id": spec.kms_key_id}
    config["virtual_hosted_style_request"] = not spec.endpoint
    if spec.endpoint:
        config["endpoint"] = spec.endpoint
    connections = await open_connections(limits)
    servers = {spec.url: f"{side}.s3.endpoint: server at {spec.url}"}
    if identity:
        servers[identity] = f"{side}.s3: credentials of the Pod's service account from {identity}"
    for url, what in servers.items():
        server = urlsplit(url)
        try:
            await connections.check(server.hostname or "", server.port or (443 if server.scheme == "https" else 80))
        except AddressRefused as refused:
            raise error(f"{what}: {refused}") from refused
    budget = max(limits.retry_seconds, _SHORTEST_RETRY_SECONDS)
    store = S3Store(
        spec.bucket,
        config=config,
        client_options={
            "allow_http": spec.endpoint.startswith("http://"),
            "timeout": timedelta(seconds=limits.handler_timeout),
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "proxy_url": _NOWHERE,
            "proxy_excludes": ",".join(urlsplit(url).hostname or "" for url in servers),
        },
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=budget)},
    )
    timeout = whole_timeout(limits.handler_timeout)
    client = HttpClient(connections, timeout=timeout, lifetime=limits.connection_seconds, tls=None)
    try:
        yield Bucket(spec, store, client, identity=identity, side=side, error=error, retry_seconds=budget)
    finally:
        await client.close()


def _identity(region: str) -> str:
    """Return the URL at which obstore exchanges the token of the Pod's service account for credentials; empty without a role.

    EKS sets the variables, which obstore reads: those of a web identity (IRSA), or of the agent of EKS Pod Identity.
    """
    if os.environ.keys() >= {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"}:
        return os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    agent = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    return agent if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in os.environ else ""


def _credentials(spec: S3Spec, folder: Path) -> "S3Config":
    if spec.credentials_ref is None:
        return {}
    secret = MountedSecret(folder, spec.credentials_ref.name)
    found = {name: secret.value(*keys, is_ascii=True) for name, keys in _KEYS.items()}
    missing = [_KEYS[name][0] for name in ("access_key_id", "secret_access_key") if not found[name]]
    if missing:
        raise ValueError(f"Secret {secret.name!r} has no key {' and no key '.join(missing)}")
    config: S3Config = {"access_key_id": found["access_key_id"], "secret_access_key": found["secret_access_key"]}
    if found["session_token"]:
        config["session_token"] = found["session_token"]
    return config
