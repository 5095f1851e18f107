"""A bucket without a Secret: the Pod's service account has a role, whose credentials expire during
the run."""

import asyncio
import hashlib
import hmac
import re
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.runner.authority import server_context
from tests.integration.runner.distant_server import at_a_distance
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, s3_server
from tests.integration.runner.servers import CountingModel, serving

ROLE = "arn:aws:iam::111122223333:role/batch"
VALID = timedelta(seconds=3)
ROWS = 60
WEB_IDENTITY = """<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>{AccessKeyId}</AccessKeyId><SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken>{Token}</SessionToken>
<Expiration>{Expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


@dataclass(frozen=True, slots=True)
class Session:
    """Credentials of a role."""

    secret: str
    token: str
    ends: datetime


@dataclass
class TokenService:
    """Exchanges the token of a service account for credentials, as Amazon's STS and the agent of
    EKS Pod Identity do."""

    token: Path
    url: str = ""
    refusal: str = ""
    sessions: dict[str, Session] = field(default_factory=dict)
    """By their access keys."""

    used: set[str] = field(default_factory=set)

    async def assume(self, request: web.Request) -> web.Response:
        """Answer STS's AssumeRoleWithWebIdentity."""
        asked = request.query
        assert (asked["Action"], asked["RoleArn"]) == ("AssumeRoleWithWebIdentity", ROLE)
        if self.refusal or asked["WebIdentityToken"] != self.token.read_text():
            return web.Response(status=403, text=f"<Error><Code>{self.refusal}</Code></Error>")
        return web.Response(text=WEB_IDENTITY.format(**self._credentials()))

    async def give(self, request: web.Request) -> web.Response:
        """Answer as the agent."""
        assert request.headers["Authorization"] == self.token.read_text()
        return web.json_response(self._credentials())

    def admit(self, request: web.Request) -> Mapping[str, str]:
        """Check a signature as S3 does, and return the headers as the server's own account would
        sign them.

        Whether the session had ended is judged by the time of the signature: the request may arrive
        much later on a busy machine.
        """
        given, headers = request.headers["Authorization"], dict(request.headers)
        key, signed = re.findall(r"Credential=([^/]+)/.*SignedHeaders=([^,]+)", given)[0]
        session, token = self.sessions[key], headers.pop("x-amz-security-token")
        assert given == authorization(request, signed.split(";"), key=key, secret=session.secret)
        assert token == session.token
        self.used.add(key)
        if (
            datetime.strptime(f"{request.headers['x-amz-date']}+0000", "%Y%m%dT%H%M%SZ%z")
            >= session.ends
        ):
            raise web.HTTPBadRequest(text="<Error><Code>ExpiredToken</Code></Error>")
        signed = [name for name in signed.split(";") if name != "x-amz-security-token"]
        return headers | {
            "Authorization": authorization(request, signed, key=ACCESS_KEY, secret=SECRET_KEY)
        }

    async def wait_for_expiry(self, _: web.Request) -> None:
        """Delay a prediction until the first session has ended."""
        left = min(one.ends for one in self.sessions.values()) - datetime.now(UTC)
        await asyncio.sleep(max(0, left.total_seconds()))

    def _credentials(self) -> dict[str, str]:
        key = f"KEY{len(self.sessions)}"
        one = Session(secrets.token_hex(), secrets.token_hex(), datetime.now(UTC) + VALID)
        self.sessions[key] = one
        self.token.write_text(f"token-{len(self.sessions)}")  # the kubelet renews it
        keys = {"AccessKeyId": key, "SecretAccessKey": one.secret, "Token": one.token}
        return {**keys, "Expiration": one.ends.strftime("%Y-%m-%dT%H:%M:%SZ")}


def authorization(request: web.Request, signed: Sequence[str], *, key: str, secret: str) -> str:
    """The header of a request that is signed with an access key (AWS Signature Version 4)."""
    path, _, query = request.raw_path.partition("?")
    arguments = "&".join(
        sorted(part if "=" in part else f"{part}=" for part in query.split("&") if part)
    )
    headers = [f"{name}:{request.headers[name]}" for name in signed]
    payload, time = request.headers["x-amz-content-sha256"], request.headers["x-amz-date"]
    canonical = "\n".join(
        [request.method, path, arguments, *headers, "", ";".join(signed), payload]
    )
    scope = f"{time[:8]}/us-east-1/s3/aws4_request"
    mac = f"AWS4{secret}".encode()
    text = "\n".join(
        ["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    for part in (*scope.split("/"), text):
        mac = hmac.digest(mac, part.encode(), "sha256")
    return f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={';'.join(signed)}, Signature={mac.hex()}"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The projected token of the service account."""
    path = tmp_path / "token"
    path.write_text("token-0")
    return path


def sts(token: Path, authority: Path) -> AbstractAsyncContextManager[TokenService]:
    return token_service(token, tls=server_context(authority))


@asynccontextmanager
async def token_service(
    token: Path, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[TokenService]:
    """Start a service, with TLS as STS or without as the agent."""
    service = TokenService(token)
    app = web.Application()
    app.router.add_post("/", service.assume)
    app.router.add_get("/v1/credentials", service.give)
    async with serving(app, tls=tls) as service.url:
        yield service


def web_identity(service: TokenService, authority: Path) -> dict[str, str]:
    """What EKS's webhook adds to a Pod, and where this STS is."""
    identity = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(service.token)}
    return {
        **identity,
        "AWS_ENDPOINT_URL_STS": service.url,
        "INFERRUN_CA_BUNDLE": str(authority / "authority.pem"),
    }


def agent(service: TokenService) -> dict[str, str]:
    """What EKS Pod Identity adds to a Pod."""
    url = f"{service.url}/v1/credentials"
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": url,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(service.token),
    }


async def run(
    machine: Machine, service: TokenService, environment: dict[str, str], folder: Path
) -> Ended:
    """Read a bucket and write to it; the results are complete."""
    async with (
        s3_server(folder) as server,
        at_a_distance(server.url, seconds=0, admit=service.admit) as checked,
    ):
        (server.bucket / "in").mkdir()
        for part in range(3):
            rows = (f"[{number}, 1]\n" for number in range(part, ROWS, 3))
            (server.bucket / "in" / f"{part}.jsonl").write_text("".join(rows))
        keyless = replace(server, url=checked.url)
        for side, path in (("input", "in/"), ("output", "out")):
            machine.contract[side] = {"s3": keyless.spec(path)}
            del machine.contract[side]["s3"]["credentialsRef"]
        return await machine.process(**environment)


async def test_a_run_outlives_the_credentials_of_its_web_identity(
    machine: Machine, model: CountingModel, token: Path, authority: Path, tmp_path: Path
) -> None:
    async with sts(token, authority) as service:
        model.before = service.wait_for_expiry
        ended = await run(machine, service, web_identity(service, authority), tmp_path / "s3")
    assert (ended.code, ended.message) == (0, f"{ROWS} of {ROWS} records predicted"), ended.stderr
    assert len(service.used) > 1


@pytest.mark.thorough
async def test_a_run_outlives_the_credentials_of_the_pod_identity_agent(
    machine: Machine, model: CountingModel, token: Path, tmp_path: Path
) -> None:
    async with token_service(token) as service:
        model.before = service.wait_for_expiry
        ended = await run(machine, service, agent(service), tmp_path / "s3")
    assert (ended.code, ended.message) == (0, f"{ROWS} of {ROWS} records predicted"), ended.stderr
    assert len(service.used) > 1


async def test_a_role_that_the_service_account_must_not_assume_is_reported(
    machine: Machine, token: Path, authority: Path, tmp_path: Path
) -> None:
    async with sts(token, authority) as service:
        service.refusal = "AccessDenied"
        ended = await run(machine, service, web_identity(service, authority), tmp_path / "s3")
    assert ended.code == 5
    assert ended.message.endswith(
        f"no credentials from {service.url} for the Pod's service account: the server returned 403 (AccessDenied); check the "
        "trust policy of its role"
    )


async def test_the_agent_is_refused_unless_the_operator_allows_its_address(
    machine: Machine, token: Path, tmp_path: Path
) -> None:
    async with token_service(token) as service:
        environment = {
            **agent(service),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        }
        ended = await run(machine, service, environment, tmp_path / "s3")
    assert ended.code == 5
    assert ended.message == (
        "output.s3: credentials of the Pod's service account from http://169.254.170.23/v1/credentials: the server's address is a "
        "link-local address or that of a metadata service, which runs must not reach; the operator can allow it with the "
        "setting allowedAddresses"
    )
    assert not service.sessions
