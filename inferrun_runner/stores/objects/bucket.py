"""A bucket or a container, as the inputs and outputs of all clouds use it.

obstore retries requests that are safe to repeat. A conditional write whose response is lost may be
repeated and then finds its own object, so the content is compared. A conflict (409) means that
another request for the key is in progress at the same time. obstore takes it for an object that
exists and does not repeat the write: that is done here. Credentials come from the mounted Secret;
without one, from the identity of the Pod's service account, again before they expire; without an
identity, requests are not signed. The credentials of the node are never asked for.

obstore resolves names itself and follows the redirects of reads. So the addresses of the servers
are checked before the bucket is used, and a redirect to another host leads to a proxy that does not
exist. What a name resolves to later is left to network policies.

A process that is killed while obstore uploads a file in parts leaves these behind, where no list
shows them. So a large file is sent in one request, from the disk, where the cloud has a way to
authorize it. Azure deletes such parts itself after a week.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
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
from yarl import URL

from inferrun.formats.dataset import ListedFile, quoted_tag
from inferrun.plugins import Fault, FaultKind, Limits, RunnerError
from inferrun.plugins.http import ExchangeFailed, read_start
from inferrun.plugins.limits import KIB, MIB
from inferrun.stores import ObjectStorage
from inferrun_runner.network.connections import CONNECT_SECONDS, AddressRefused, open_connections
from inferrun_runner.network.http_client import AiohttpClient, whole_timeout
from inferrun_runner.network.network_failures import describe_connect_timeout, describe_unresolved
from inferrun_runner.network.retries import with_blocking_retries
from inferrun_runner.stores.block_cache import ReturnedRange
from inferrun_runner.stores.objects.cloud import Cloud, FindCloud, Mount, Transport, Wanted
from inferrun_runner.stores.run_folder.files import PROBES

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, RetryConfig

    from inferrun_runner.stores.objects.cloud import MakeUpload, ObjectStore

_SHORTEST_RETRY_SECONDS = 1.0
"""Even without retries for the model server, a failure of a moment must not end an attempt."""

_RETRIES: Final = 100_000
"""No limit but the time: obstore's waits are random, and ten retries, its default, may be over
within four seconds."""

_EXPIRED: Final = re.compile(r"<Code>(ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>")
"""What servers say in a response 400 to credentials that have expired."""

_FOR_CREDENTIALS: Final = "Error performing POST REDACTED"
"""What obstore says about a request to the service that gives credentials, because its query
contains the token."""

_OWN_CREDENTIALS: Final = re.compile(r"credential provider: \w+: ([^\n]{1,500})")
"""What obstore says about credentials that it gets from the runner: the runner's own text."""

_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")

_OTHER_REGION: Final = "redirect without LOCATION"
"""What obstore says about Amazon's answer to requests for a bucket of another region."""

_CUT_OFF: Final = "response body error"
"""What obstore says about a response that was cut off, or stalled for too long."""

_PIECE: Final = 4 * MIB

_RACES: Final = 24
"""How often two writers create an object at the same moment. Adobe's S3Mock 5.2 lets both win in 25
to 65 of 100 races. More writers at a time find no more, and SeaweedFS lets each of them wait for up
to a second."""

_LARGEST_REQUEST: Final = 1024 * MIB
"""Larger files are uploaded in parts: one request might not end within `handler_timeout`, and its
limit is 5 GiB."""

_STATUS = re.compile(r"non-2xx status code: (\d{3})")

_NOT_CONNECTED: Final = re.compile(
    r'"(dns|tcp connect) error",(?:\s*(127\.0\.0\.1:1),)?.*?(?:message: "([^"]{1,80})"|kind: (TimedOut))',
    re.DOTALL,
)
"""What obstore says about a failed connection: the stage, the proxy that does not exist, and the
system's text."""

_NOWHERE: Final = "http://127.0.0.1:1"
"""The proxy for every other host than the endpoint's. Nothing listens there; the environment's
proxies are not used either."""


T = TypeVar("T")


class Bucket:
    """Reads and writes whole objects and ranges. Methods block and raise the given error with the
    location and the fix."""

    def __init__(
        self,
        spec: ObjectStorage,
        cloud: Cloud,
        store: "ObjectStore",
        reader: "ObjectStore",
        client: AiohttpClient,
        *,
        field: str,
        error: type[RunnerError],
        retry_seconds: float,
        open_bulk: "Callable[[], ObjectStore] | None" = None,
    ) -> None:
        """Files are sent in the event loop that is running now. `field`: that of the storage
        object, such as `input.s3`.

        `reader` is the store with the cloud's headers for reads. `open_bulk` returns the store that
        deletes many objects at once.
        """
        self._spec = spec
        self._cloud = cloud
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._retry_seconds = retry_seconds
        self._store = store
        self._reader = reader
        self._open_bulk = open_bulk
        self._field = field
        self._error = error

    def head(self, key: str) -> ListedFile | None:
        """Return an object's description, or None if there is no such object."""
        with self._errors(key):
            try:
                found = obstore.head(self._reader, key)
            except FileNotFoundError:
                return None
            return ListedFile(key, size=found["size"], tag=quoted_tag(found["e_tag"]))

    def list_below(self, prefix: str) -> list[ListedFile]:
        """Return all objects below a prefix, sorted by key."""
        pages = self._read(prefix, lambda: list(obstore.list(self._store, prefix, chunk_size=1000)))
        found = (
            ListedFile(one["path"], one["size"], quoted_tag(one["e_tag"]))
            for page in pages
            for one in page
        )
        return sorted(found, key=lambda one: one.name)

    def read(self, key: str) -> bytes | None:
        """Return the content of a small object, or None if there is no such object."""

        def get() -> bytes | None:
            try:
                return bytes(obstore.get(self._store, key).bytes())
            except FileNotFoundError:
                return None

        return self._read(key, get)

    def read_range(self, key: str, start: int, length: int, *, tag: str = "") -> ReturnedRange:
        """Return a part of an object, as it is stored. Raises the given error if it has another
        tag."""
        options: GetOptions = {"range": (start, start + length)}
        if tag:
            options["if_match"] = tag

        def get() -> ReturnedRange:
            try:
                found = obstore.get(self._reader, key, options=options)
                # some servers ignore the condition
                is_same = not tag or quoted_tag(found.meta["e_tag"]) == tag
            except PreconditionError:
                is_same = False
            if not is_same:
                text = f"{self._where(key)} changed while it was being read; start a new run"
                raise self._error(text, is_retryable=False)
            return ReturnedRange(
                bytes(found.bytes()), str(found.attributes.get("Content-Encoding", ""))
            )

        return self._read(key, get)

    def pieces(self, key: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object of that size, in ranges; nothing if there is no such
        object."""

        def get(start: int) -> bytes:
            try:
                return bytes(
                    obstore.get_range(self._store, key, start=start, end=min(start + _PIECE, size))
                )
            except FileNotFoundError:
                return b""

        for start in range(0, size, _PIECE):
            yield self._read(key, partial(get, start))

    def _read(self, key: str, get: Callable[[], T]) -> T:
        """Read something, again if the response was cut off. obstore itself repeats what fails
        before the response begins."""

        def attempt() -> T:
            with self._errors(key):
                try:
                    return get()
                except GenericError as error:
                    if _CUT_OFF not in str(error):
                        raise
                    text = f"{self._where(key)}: the response was truncated; check {self._field}.endpoint"
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
        upload = self._cloud.upload if _PIECE < size <= _LARGEST_REQUEST else None

        def attempt() -> None:
            with self._errors(key):
                try:
                    if isinstance(content, Path) and upload is not None:
                        sending = self._send(upload, key, content, size=size)
                        asyncio.run_coroutine_threadsafe(sending, self._loop).result()
                    else:
                        obstore.put(self._store, key, content)
                except AlreadyExistsError as error:
                    raise self._conflict(key, error) from error

        with_blocking_retries(attempt, budget=self._retry_seconds)

    async def _send(self, upload: "MakeUpload", key: str, path: Path, *, size: int) -> None:
        try:
            to = await upload(self._store, key)
        except self._error as error:
            raise self._error(f"{self._where(key)}: {error}") from error
        with path.open("rb") as content:
            try:
                headers = {**to.headers, "Content-Length": str(size)}
                url = URL(to.url, encoded=True)
                async with self._client.stream(
                    "PUT", url, headers=headers, body=content
                ) as response:
                    body = await read_start(response, 4 * KIB)
            except ExchangeFailed as error:
                raise error.fault(self._error(f"{self._where(key)}: {error}")) from None
        if response.status != 200:
            failed = GenericError(
                f"non-2xx status code: {response.status} {body.decode(errors='replace')}"
            )
            kind = (
                FaultKind.BUSY
                if response.status in {409, 429} or response.status >= 500
                else FaultKind.FAILED
            )
            raise Fault(self._error(f"{self._where(key)}: {self._failure(failed)}"), kind=kind)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; a missing one is ignored.

        What a request for many objects has left is deleted one by one: s3proxy 2.6 and localbucket
        1.2 answer it with 501, others with 400 or 405.
        """
        if not keys:
            return
        with self._errors(keys[0]):
            if len(keys) > 1 and self._open_bulk is not None:
                try:
                    obstore.delete(self._open_bulk(), list(keys))
                    return
                except (BaseError, OSError):
                    self._open_bulk = None
            try:
                obstore.delete(self._store, list(keys))
            except FileNotFoundError:
                # Google and Azure say so of a missing object, and others may not be deleted yet
                for key in keys if len(keys) > 1 else ():
                    self.delete([key])

    def check(self, folder: str) -> None:
        """Verify that of several writers one creates an object, and that the others are told that
        it exists."""
        keys = [
            f"{folder}/{PROBES}{uuid.uuid4().hex}"
            for _ in range(1 + _RACES * bool(self._spec.endpoint))
        ]
        self.create(keys[0], b"first")
        try:
            self._check_exclusive(keys)
        except self._error:
            with suppress(self._error):  # it must not replace the answer
                self.delete(keys)
            raise
        self.delete(keys)

    def _check_exclusive(self, keys: Sequence[str]) -> None:
        """Raise the given error unless an object is created once. The first of the keys exists.

        Old servers ignore the condition, and others evaluate it before they store the object:
        SeaweedFS until its issue 8800, versitygw before 1.8 (2288). The clouds' own services, which
        have no `endpoint`, document that they do neither.
        """
        fault = "does not support conditional writes" if self.create(keys[0], b"second") else ""
        with ThreadPoolExecutor(1) as pool:
            for key in () if fault else keys[1:]:
                other = pool.submit(self.create, key, b"other")
                if all((self.create(key, b"one"), other.result())):
                    fault = (
                        "lets two writers create one object: its conditional writes are not atomic"
                    )
                    break
        if fault:
            raise self._error(
                f"{self._field}: the server of {self._spec.root}/{keys[0].rpartition('/')[0]} {fault} (If-None-Match), so chunks "
                "cannot be committed exactly once; use another server, or the file label",
                is_retryable=False,
            )

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        where = self._where(key)
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            if own := _OWN_CREDENTIALS.search(str(error)):
                raise self._error(f"{where}: {own[1]}") from error
            raise self._error(f"{where}: access denied; check {self._cloud.access}") from error
        except FileNotFoundError as error:
            raise self._error(
                f"{where}: {self._spec.place} or object does not exist, or the access key is unknown; check "
                f"{self._field}.{self._spec.place}, path and credentialsRef"
            ) from error
        except InvalidPathError as error:
            raise self._error(
                f"{where}: contains an object whose key has an empty part, as in a//b, or a control character; rename it",
                is_retryable=False,
            ) from error
        except (BaseError, OSError) as error:
            raise self._error(f"{where}: {self._failure(error)}") from error

    def _where(self, key: str) -> str:
        return f"{self._field}: {self._spec.root}/{key}"

    def _conflict(self, key: str, error: AlreadyExistsError) -> Fault:
        return Fault(
            self._error(f"{self._where(key)}: {self._failure(error)}"), kind=FaultKind.BUSY
        )

    def _failure(self, error: Exception) -> str:
        """Describe a failure. The client's text is not shown: it contains the URL and what the
        server sent."""
        text = str(error)
        identities = self._cloud.identities
        exchange = next(
            (one for one in identities if one in text),
            identities[0] if _FOR_CREDENTIALS in text and identities else "",
        )
        url = exchange or self._spec.url
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
            return f"the server returned {expired[1]}; renew the credentials in the Secret of {self._field}.credentialsRef"
        found = _STATUS.search(text)
        what = (
            f"the server returned {found[1]}"
            if found
            else f"the request failed ({type(error).__name__})"
        )
        place = f"{self._field}.{self._spec.place} and " if found and found[1] == "404" else ""
        if _OTHER_REGION in text:
            what, place = "the bucket is in another region", f"{self._field}.region and "
        fix = f"{place}{self._field}.endpoint"
        if exchange:
            code = _CODE.search(text)
            what = f"no credentials from {url} for the Pod's service account: {what}{f' ({code[1]})' if code else ''}"
            fix = self._cloud.trust
        return f"{what}; check {fix}"


@asynccontextmanager
async def open_bucket(
    spec: Wanted, find_cloud: FindCloud[Wanted], mount: Mount, limits: Limits
) -> AsyncIterator[Bucket]:
    """Open a bucket with the credentials in a mounted Secret, or those of the Pod's service
    account.

    Raises the error of the mount if the Secret is incomplete, or if runs must not connect to a
    server.
    """
    cloud, field, error = find_cloud(spec, mount), mount.field, mount.error
    connections = await open_connections(limits)
    servers = {spec.url: f"{field}.endpoint: server at {spec.url}"}
    for identity in cloud.identities:
        servers[identity] = f"{field}: credentials of the Pod's service account from {identity}"
    for url, what in servers.items():
        server = urlsplit(url)
        try:
            await connections.check(
                server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
            )
        except AddressRefused as refused:
            raise error(f"{what}: {refused}") from refused
    budget = max(limits.retry_seconds, _SHORTEST_RETRY_SECONDS)
    client = AiohttpClient(
        connections,
        timeout=whole_timeout(limits.handler_timeout),
        lifetime=limits.connection_seconds,
        tls=None,
    )
    options: ClientConfig = {
        "allow_http": spec.endpoint.startswith("http://"),
        "timeout": timedelta(seconds=limits.handler_timeout),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "proxy_url": _NOWHERE,
        "proxy_excludes": ",".join(urlsplit(url).hostname or "" for url in servers),
    }
    retries: RetryConfig = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=budget)}
    try:
        store = reader = cloud.open_store(Transport(client, options, retries, budget))
        if cloud.read_headers:
            options = {**options, "default_headers": dict(cloud.read_headers)}
            reader = cloud.open_store(Transport(client, options, retries, budget))
        open_bulk = None
        if open_store := cloud.open_bulk:
            # It must be known soon that a server has no such request: obstore repeats what is
            # answered with 501.
            soon: RetryConfig = {
                **retries,
                "retry_timeout": timedelta(seconds=_SHORTEST_RETRY_SECONDS),
            }
            open_bulk = cache(partial(open_store, Transport(client, options, soon, budget)))
        yield Bucket(
            spec,
            cloud,
            store,
            reader,
            client,
            field=field,
            error=error,
            retry_seconds=budget,
            open_bulk=open_bulk,
        )
    finally:
        await client.close()
