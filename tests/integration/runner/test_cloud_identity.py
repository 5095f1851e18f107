"""Objects of Google and Azure without a Secret: the token of the Pod's service account is exchanged
for credentials, which expire during the run.
"""

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from aiohttp import web

from inferrun.plugins import InputError, Limits, OutputError
from inferrun.stores import AzureStorage, GcsStorage
from inferrun_runner.stores.objects.azure import azure_cloud
from inferrun_runner.stores.objects.bucket import open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.gcs import gcs_cloud
from tests.integration.runner.clouds import CloudBucket, Clouds, clouds
from tests.integration.runner.distant_server import at_a_distance
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, serving

VALID = timedelta(seconds=3)
ROWS = 60
AUDIENCE = (
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
)
ACCOUNT = "batch@project.iam.gserviceaccount.com"
POD_TOKEN = "token-of-the-pod"
LIMITS = Limits.model_validate({"retry_seconds": 0, "allowed_addresses": "127.0.0.1"})


@dataclass
class TokenService:
    """Exchanges the token of a service account for access tokens, as Google's and Azure's services
    do."""

    refusal: str = ""
    url: str = ""
    ends: dict[str, datetime] = field(default_factory=dict)
    """When each access token expires."""

    used: set[str] = field(default_factory=set)

    def _token(self) -> str:
        token = f"access-{len(self.ends)}"
        self.ends[token] = datetime.now(UTC) + VALID
        return token

    async def exchange(self, request: web.Request) -> web.Response:
        """Google: for the token of the Pod."""
        form = await request.post()
        assert (form["audience"], form["subject_token"]) == (AUDIENCE, POD_TOKEN)
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
        if self.refusal:
            return web.json_response(
                {"error": self.refusal, "error_description": POD_TOKEN}, status=400
            )
        return web.json_response(
            {"access_token": self._token(), "expires_in": VALID.seconds, "token_type": "Bearer"}
        )

    async def impersonate(self, request: web.Request) -> web.Response:
        """Google: for the result of the exchange."""
        assert request.match_info["account"] == f"{ACCOUNT}:generateAccessToken"
        # is not valid for the bucket
        del self.ends[request.headers["Authorization"].removeprefix("Bearer ")]
        token = self._token()
        return web.json_response({"accessToken": token, "expireTime": self.ends[token].isoformat()})

    async def assert_client(self, request: web.Request) -> web.Response:
        """Azure."""
        form = await request.post()
        assert (form["client_id"], form["client_assertion"]) == ("client", POD_TOKEN)
        if self.refusal:
            return web.json_response({"error": self.refusal}, status=401)
        return web.json_response(
            {"access_token": self._token(), "expires_in": VALID.seconds, "token_type": "Bearer"}
        )

    def check(self, request: web.Request) -> None:
        """Accept a request of an access token that is valid."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.ends.get(token, datetime.min.replace(tzinfo=UTC)) < datetime.now(UTC) - timedelta(
            seconds=2
        ):
            raise web.HTTPUnauthorized
        self.used.add(token)

    async def wait_for_expiry(self, _: web.Request | None = None) -> None:
        """Wait until the first token has expired; a model does so before a prediction."""
        left = min(self.ends.values()) - datetime.now(UTC)
        await asyncio.sleep(max(0, left.total_seconds()))


@pytest.fixture(scope="module", name="emulators")
def started() -> Iterator[Clouds]:
    """Emulators of both clouds."""
    with clouds() as found:
        yield found


@pytest.fixture
async def service() -> AsyncIterator[TokenService]:
    """The services of both clouds."""
    found = TokenService()
    app = web.Application()
    app.router.add_post("/v1/token", found.exchange)
    app.router.add_post("/v1/projects/-/serviceAccounts/{account}", found.impersonate)
    app.router.add_post("/tenant/oauth2/v2.0/token", found.assert_client)
    async with serving(app) as found.url:
        yield found


@asynccontextmanager
async def google(bucket: CloudBucket, service: TokenService) -> AsyncIterator[dict[str, object]]:
    """The storage object of a server in front of the emulator that checks access tokens."""
    target = bucket.place["endpoint"]

    def admit(request: web.Request) -> Mapping[str, str]:
        service.check(request)
        return {**request.headers, "Host": urlsplit(target).netloc}

    async with at_a_distance(target, seconds=0, admit=admit) as checked:
        yield {**bucket.place, "endpoint": checked.url}


@asynccontextmanager
async def azure(bucket: CloudBucket, service: TokenService) -> AsyncIterator[dict[str, object]]:
    """The same, in front of Azurite, which gets requests that are signed with the key of the
    account."""
    target = urlsplit(bucket.place["endpoint"])

    def admit(request: web.Request) -> Mapping[str, str]:
        service.check(request)
        headers = {
            name: value for name, value in request.headers.items() if name != "Authorization"
        }
        return headers | {
            "Authorization": shared_key(request, headers, key=bucket.keys["accountKey"])
        }

    async with at_a_distance(
        f"{target.scheme}://{target.netloc}", seconds=0, admit=admit
    ) as checked:
        yield {**bucket.place, "endpoint": f"{checked.url}{target.path}"}


def shared_key(request: web.Request, headers: Mapping[str, str], *, key: str) -> str:
    """The header of a request without a body that is signed with the key of the account
    `records`."""
    known = {name.lower(): value for name, value in headers.items()}
    standard = "content-encoding content-language no-length content-md5 content-type date if-modified-since if-match"
    names = f"{standard} if-none-match if-unmodified-since range".split()
    ours = [f"{name}:{known[name]}" for name in sorted(known) if name.startswith("x-ms-")]
    query = [f"{name.lower()}:{value}" for name, value in sorted(request.query.items())]
    lines = [
        request.method,
        *(known.get(name, "") for name in names),
        *ours,
        f"/records{request.path}",
        *query,
    ]
    signature = hmac.digest(base64.b64decode(key), "\n".join(lines).encode(), "sha256")
    return f"SharedKey records:{base64.b64encode(signature).decode()}"


def fill(bucket: CloudBucket, folder: Path) -> None:
    for part in range(3):
        rows = (f"[{number}, 1]\n" for number in range(part, ROWS, 3))
        (folder / "in").mkdir(parents=True, exist_ok=True)
        (folder / "in" / f"{part}.jsonl").write_text("".join(rows))
    bucket.upload(folder)


@pytest.mark.parametrize(
    "account",
    [{}, pytest.param({"serviceAccount": ACCOUNT}, marks=pytest.mark.thorough)],
    ids=["direct", "impersonated"],
)
async def test_a_run_outlives_the_credentials_of_its_workload_identity(
    machine: Machine,
    model: CountingModel,
    emulators: Clouds,
    service: TokenService,
    account: dict[str, str],
) -> None:
    bucket = emulators.bucket("gcs")
    fill(bucket, machine.folder / "given")
    model.before = service.wait_for_expiry
    async with google(bucket, service) as place:
        for side, path in (("input", "in/"), ("output", "out")):
            identity = {"audience": AUDIENCE, **account}
            machine.contract[side] = {"gcs": {**place, "path": path, "workloadIdentity": identity}}
            (machine.folder / "endpoints" / side / "token").write_text(POD_TOKEN)
        ended = await machine.process(
            INFERRUN_GOOGLE_STS=service.url, INFERRUN_GOOGLE_IAM=service.url
        )
    assert (ended.code, ended.message) == (0, f"{ROWS} of {ROWS} records predicted"), ended.stderr
    assert len(service.used) > 1


def set_azure_identity(monkeypatch: pytest.MonkeyPatch, service: TokenService, token: Path) -> None:
    """As the webhook of Azure Workload Identity does."""
    token.write_text(POD_TOKEN)
    identity = {"TENANT_ID": "tenant", "CLIENT_ID": "client", "AUTHORITY_HOST": service.url}
    for name, value in {**identity, "FEDERATED_TOKEN_FILE": str(token)}.items():
        monkeypatch.setenv(f"AZURE_{name}", value)


@pytest.mark.usefixtures("model")
async def test_a_run_reads_with_azures_workload_identity(
    machine: Machine,
    emulators: Clouds,
    service: TokenService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = emulators.bucket("azure")
    fill(bucket, tmp_path / "given")
    set_azure_identity(monkeypatch, service, tmp_path / "token")
    async with azure(bucket, service) as place:
        machine.contract["input"] = {"azure": {**place, "path": "in/"}}
        machine.contract["output"] = {"file": {"claimName": "made", "path": "out"}}
        ended = await machine.process()
    assert (ended.code, ended.message) == (0, f"{ROWS} of {ROWS} records predicted"), ended.stderr
    assert service.used


async def test_credentials_of_azures_workload_identity_are_renewed(
    emulators: Clouds, service: TokenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = emulators.bucket("azure")
    fill(bucket, tmp_path / "given")
    set_azure_identity(monkeypatch, service, tmp_path / "token")
    async with azure(bucket, service) as place:
        spec = AzureStorage.model_validate({**place, "path": "in/"})
        async with open_bucket(
            spec, azure_cloud, Mount(tmp_path, "input.azure", InputError), LIMITS
        ) as opened:
            assert await asyncio.to_thread(opened.read, "in/0.jsonl")
            first = set(service.used)
            await service.wait_for_expiry()
            assert await asyncio.to_thread(opened.read, "in/1.jsonl")
    assert service.used > first


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("gcs", "the server returned 400 (invalid_grant); check workloadIdentity"),
        ("azure", "the server returned 401; check the federated credential of its identity"),
    ],
)
async def test_a_token_that_is_not_accepted_is_reported(
    machine: Machine, emulators: Clouds, service: TokenService, label: str, expected: str
) -> None:
    service.refusal = "invalid_grant"
    token = machine.folder / "endpoints" / "input" / "token"
    token.write_text(POD_TOKEN)
    environment = {
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_AUTHORITY_HOST": service.url,
    }
    environment |= {"INFERRUN_GOOGLE_STS": service.url, "AZURE_FEDERATED_TOKEN_FILE": str(token)}
    more = {"workloadIdentity": {"audience": AUDIENCE}} if label == "gcs" else {}
    machine.contract["input"] = {label: {**emulators.bucket(label).place, "path": "in/", **more}}
    machine.contract["output"] = {"file": {"claimName": "made", "path": "out"}}
    ended = await machine.process(**environment)
    assert ended.code == 3
    assert ended.message.endswith(
        f"no credentials from {service.url} for the Pod's service account: {expected}"
    )
    assert POD_TOKEN not in ended.stderr


@pytest.mark.parametrize("is_keyless", [False, True], ids=["key", "identity"])
async def test_a_large_file_is_sent_to_google_in_one_request(
    emulators: Clouds,
    service: TokenService,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_keyless: bool,
    tmp_path: Path,
) -> None:
    """The emulator does not support uploads in parts."""
    monkeypatch.setenv("INFERRUN_GOOGLE_STS", service.url)
    bucket = emulators.bucket("gcs")
    content = bytes(range(256)) * (5 << 12)
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "token").write_text(POD_TOKEN)
    bucket.mount(tmp_path)
    identity = (
        {"credentialsRef": None, "workloadIdentity": {"audience": AUDIENCE}} if is_keyless else {}
    )
    spec = GcsStorage.model_validate({**bucket.spec("out"), **identity})
    async with open_bucket(
        spec, gcs_cloud, Mount(tmp_path, "output.gcs", OutputError), LIMITS
    ) as opened:
        await asyncio.to_thread(opened.put, "out/a file+1", tmp_path / "file")
        assert await asyncio.to_thread(opened.read, "out/a file+1") == content
    assert bool(service.ends) == is_keyless


async def test_a_token_of_azure_that_may_not_write_is_named(
    emulators: Clouds, tmp_path: Path
) -> None:
    bucket = emulators.bucket("azure")
    query = {
        "sp": "rl",
        "ss": "b",
        "srt": "co",
        "se": f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
    }
    query["sv"] = "2019-02-02"
    lines = [
        "records",
        *(query.get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv")),
        "",
    ]
    signature = hmac.digest(
        base64.b64decode(bucket.keys["accountKey"]), "\n".join(lines).encode(), "sha256"
    )
    query["sig"] = base64.b64encode(signature).decode()
    (tmp_path / "sasToken").write_text("?" + urlencode(query))
    spec = AzureStorage.model_validate(bucket.spec("out"))
    async with open_bucket(
        spec, azure_cloud, Mount(tmp_path, "output.azure", OutputError), LIMITS
    ) as opened:
        assert await asyncio.to_thread(opened.list_below, "out/") == []
        with pytest.raises(
            OutputError, match=r"check output\.azure\.credentialsRef and its permissions"
        ):
            await asyncio.to_thread(opened.check, "out")
