"""Credentials for a model server from the Secret that `kserve.credentialsRef` names, with every
protocol."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from aiohttp import web

from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld, grpc_secured
from tests.integration.runner.authority import server_context
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel, counting_model

pytestmark = pytest.mark.thorough

BASIC = "Basic " + b64encode(b"reader:p4ss").decode()


@pytest.fixture(params=sorted(set(PROTOCOLS) - {"lines"}))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[ProtocolWorld]:
    async with PROTOCOLS[request.param]() as started:
        yield started


async def run(machine: Machine, url: str, protocol: str = "v2", **keys: str) -> Ended:
    """Four numbers for the model, with these keys of the Secret."""
    machine.write_rows([[1.0, 2.0], [3.0, 4.0]])
    machine.contract["kserve"] = {"modelName": "sum", "modelUrl": url, "protocolVersion": protocol}
    machine.endpoint("model", keys)
    return await machine.pod()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"token": "t0ken\n"}, "Bearer t0ken"),
        ({"username": "reader", "password": "p4ss"}, BASIC),
        ({}, ""),
    ],
    ids=["bearer", "basic", "none"],
)
async def test_credentials_are_sent_with_every_request(
    file: Machine, world: ProtocolWorld, keys: dict[str, str], expected: str
) -> None:
    ended = await run(file, world.server.url, world.name, **keys)
    assert ended.code == 0, ended.message
    assert set(world.server.authorizations) == {expected}


async def test_a_token_that_is_renewed_is_read_again(file: Machine, model: CountingModel) -> None:
    seen: list[str] = []

    async def renew(request: web.Request) -> web.StreamResponse | None:
        seen.append(request.headers["Authorization"])
        file.endpoint("model", {"token": f"t{len(seen)}"})
        return web.Response(status=503) if len(seen) == 1 else None

    model.before = renew
    file.environment["INFERRUN_RETRY_SECONDS"] = "30"
    ended = await run(file, model.address, token="t0")
    assert ended.code == 0, ended.message
    assert seen == ["Bearer t0", "Bearer t1"]


async def test_a_client_certificate_and_an_authority_are_used(
    file: Machine, authority: Path
) -> None:
    keys = certificates(authority)
    async with counting_model(tls=server_context(authority, asks_client=True)) as server:
        url = f"{server.url}/v2/models/sum/infer"
        without = await run(file, url, **{"ca.crt": keys["ca.crt"]})
        ended = await run(file, url, **keys)
    assert without.code == 4
    assert ended.code == 0, ended.message


async def test_a_client_certificate_and_an_authority_are_used_over_grpc(
    file: Machine, authority: Path
) -> None:
    key, certificate = (authority / f"server.{kind}" for kind in ("key", "pem"))
    trusted = (authority / "authority.pem").read_bytes()
    pair = (key.read_bytes(), certificate.read_bytes())
    secured = grpc.ssl_server_credentials(
        [pair], root_certificates=trusted, require_client_auth=True
    )
    keys = certificates(authority)
    async with grpc_secured(secured) as world:
        without = await run(file, world.server.url, "grpc-v2", **{"ca.crt": keys["ca.crt"]})
        ended = await run(file, world.server.url, "grpc-v2", **keys)
    assert without.code == 4
    assert ended.code == 0, ended.message


def certificates(authority: Path) -> dict[str, str]:
    """The Secret as cert-manager writes it."""
    names = {"ca.crt": "authority.pem", "tls.crt": "client.pem", "tls.key": "client.key"}
    return {key: (authority / name).read_text() for key, name in names.items()}


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "a token of two lines": (
        {"token": "c4nary\nc4nary"},
        "key token must be printable ASCII on one line",
    ),
    "an empty token": ({"token": "\n"}, "key token must be printable ASCII on one line"),
    "two credentials": (
        {"token": "c4nary", "username": "a", "password": "c4nary"},
        "has both token and password",
    ),
    "a password without a user": (
        {"password": "c4nary"},
        "has a key password, but no key username",
    ),
    "a certificate without a key": (
        {"tls.crt": "c4nary"},
        "has only one of tls.crt and tls.key; both are required",
    ),
    "what is not a certificate": (
        {"tls.crt": "c4nary", "tls.key": "c4nary"},
        "tls.crt and tls.key cannot be used",
    ),
    "what is not an authority": ({"ca.crt": "c4nary"}, "key ca.crt is not a PEM certificate"),
}


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
@pytest.mark.parametrize("mistake", WRONG)
async def test_a_secret_that_cannot_be_used_is_named_without_its_values(
    file: Machine, mistake: str, protocol: str
) -> None:
    keys, text = WRONG[mistake]
    ended = await run(file, "127.0.0.1:9", protocol, **keys)
    assert ended.code == 2
    assert ended.message.startswith("kserve.credentialsRef: ")
    assert text in ended.message
    assert "c4nary" not in ended.message


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {},
            "the server requires credentials; name a Secret that has them with kserve.credentialsRef",
        ),
        ({"token": "c4nary"}, "check the credentials in the Secret of kserve.credentialsRef"),
    ],
    ids=["without", "wrong"],
)
async def test_a_refusal_says_what_to_check(
    file: Machine, model: CountingModel, keys: dict[str, str], text: str
) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    model.before = refuse
    ended = await run(file, model.address, **keys)
    assert ended.code == 4
    assert text in ended.message
    assert "c4nary" not in ended.message
