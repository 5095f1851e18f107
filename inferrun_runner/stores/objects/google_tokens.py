"""Access tokens of Google for the token of the Pod's service account, as workload identity
federation gives them.

The token is exchanged at Google's token service (RFC 8693), and the result, if a service account of
Google is to be impersonated, at the service for its credentials. obstore keeps a token until a few
minutes before it expires.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import orjson

from inferrun.plugins import RunnerError
from inferrun.plugins.http import ExchangeFailed, fault_of_status, size_of
from inferrun.plugins.limits import KIB
from inferrun_runner.network.retries import with_retries
from inferrun_runner.stores.objects.cloud import Transport

if TYPE_CHECKING:
    from obstore.store import GCSCredential

_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_ANY_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_URN: Final = "urn:ietf:params:oauth"


def google_servers(*, impersonates: bool) -> tuple[str, ...]:
    """The URLs of the servers that are asked for tokens. The environment can name others."""
    exchange = os.environ.get("INFERRUN_GOOGLE_STS") or "https://sts.googleapis.com"
    accounts = os.environ.get("INFERRUN_GOOGLE_IAM") or "https://iamcredentials.googleapis.com"
    return (exchange, accounts) if impersonates else (exchange,)


class GoogleTokens:
    """The credentials of a store, which asks for them in a thread of its own."""

    def __init__(
        self,
        token_file: Path,
        audience: str,
        service_account: str,
        servers: Sequence[str],
        transport: Transport,
        *,
        error: type[RunnerError],
    ) -> None:
        """Requests are sent in the event loop that is running now. `service_account`: the one to
        impersonate, or none."""
        self._error = error
        self._file = token_file
        self._audience = audience
        self._account = service_account
        self._transport = transport
        self._servers = servers
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> "GCSCredential":
        """Return a token. Blocks. Raises the given error."""
        return asyncio.run_coroutine_threadsafe(self.fetch(), self._loop).result()

    async def fetch(self) -> "GCSCredential":
        """Return a token. Raises the given error."""
        return await with_retries(self._exchange, budget=self._transport.retry_seconds)

    async def _exchange(self) -> "GCSCredential":
        token = await asyncio.to_thread(self._file.read_text)
        form = {
            "grant_type": f"{_URN}:grant-type:token-exchange",
            "requested_token_type": f"{_URN}:token-type:access_token",
            "subject_token_type": f"{_URN}:token-type:jwt",
            "subject_token": token.strip(),
            "audience": self._audience,
            "scope": _ANY_SCOPE if self._account else _SCOPE,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        asked = datetime.now(UTC)
        given, valid = await self._post(
            self._servers[0],
            "/v1/token",
            urlencode(form).encode(),
            headers,
            wanted=("access_token", "expires_in"),
        )
        if not self._account:
            return {"token": given, "expires_at": asked + timedelta(seconds=int(valid))}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {given}"}
        path = f"/v1/projects/-/serviceAccounts/{self._account}:generateAccessToken"
        body = orjson.dumps({"scope": [_SCOPE]})
        given, ends = await self._post(
            self._servers[1], path, body, headers, wanted=("accessToken", "expireTime")
        )
        return {"token": given, "expires_at": datetime.fromisoformat(ends)}

    async def _post(
        self,
        server: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        wanted: Sequence[str],
    ) -> list[str]:
        """Return these members of the answer."""
        what = f"no credentials from {server} for the Pod's service account"
        try:
            response = await self._transport.client.exchange(
                "POST", server + path, body, headers=headers, limit=64 * KIB
            )
        except ExchangeFailed as failed:
            raise failed.fault(self._error(f"{what}: {failed}")) from None
        try:
            found = orjson.loads(response.body)
            if response.status == 200:
                return [str(found[name]) for name in wanted]
            code = found["error"] if isinstance(found["error"], str) else found["error"]["status"]
        except (ValueError, LookupError, TypeError):
            code = size_of(response.body)
        refused = self._error(
            f"{what}: the server returned {response.status} ({code[:80]}); check workloadIdentity"
        )
        raise fault_of_status(response.status, response.headers, refused)
