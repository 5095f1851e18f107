"""A model server whose certificate only its object vouches for: the runner and the warm-up trust
it, over HTTP and gRPC."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.conformance.protocol_worlds import ProtocolWorld, grpc_secured
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import counting_model

pytestmark = pytest.mark.thorough

SELF_SIGNED = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
O = Kserve Self Signed
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, keyEncipherment, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1
subjectKeyIdentifier = none
authorityKeyIdentifier = none
"""
"""A certificate as KServe makes it for an LLMInferenceService: signed by itself, though it is not
an authority."""


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the certificate, with `tls.crt` and `tls.key`."""
    folder = tmp_path_factory.mktemp("self-signed")
    (folder / "request.cnf").write_text(SELF_SIGNED)
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -config request.cnf -keyout tls.key -out tls.crt"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def credentials(authority: Path) -> grpc.ServerCredentials:
    key, certificate = (authority / f"server.{kind}" for kind in ("key", "pem"))
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


@pytest.fixture
async def grpc_server(credentials: grpc.ServerCredentials) -> AsyncIterator[ProtocolWorld]:
    """A model over gRPC with a certificate of the authority."""
    async with grpc_secured(credentials) as world:
        yield world


def use_grpc(machine: Machine, world: ProtocolWorld, **service: str) -> None:
    """Four numbers for the model over gRPC, whose object says that."""
    (machine.input / "data" / "rows.jsonl").write_text("[1.0, 2.0, 3.0, 4.0]\n")
    named = {"kind": "InferenceService", "namespace": "models", "name": "sum", **service}
    given = {
        "modelName": "sum",
        "modelUrl": world.server.url,
        "protocolVersion": "grpc-v2",
        "service": named,
    }
    machine.contract["kserve"] = given


@pytest.mark.parametrize("key", ["ca.crt", "tls.crt"])
async def test_the_certificate_of_an_llm_service_is_trusted_from_its_secret(
    file: Machine, self_signed: Path, key: str
) -> None:
    """KServe before 0.18 writes it as `tls.crt` only."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(self_signed / "tls.crt", self_signed / "tls.key")
    file.write_rows([[1.0, 2.0]])
    async with counting_model(tls=context) as server:
        file.contract["kserve"]["modelUrl"] = f"{server.url}/v2/models/sum/infer"
        without = await file.process()
        file.endpoint("model-ca", {key: (self_signed / "tls.crt").read_text()})
        awake = await file.process("inferrun_runner.warm_up")
        ended = await file.process()
    assert without.code == 4
    assert "name it with spec.caBundle in the InferenceConfig" in without.message
    assert (awake.code, ended.code) == (0, 0), (awake.stdout, ended.stderr)
    assert server.rows == {1.0: 1}


async def test_the_authority_of_an_object_is_trusted_over_grpc(
    file: Machine, grpc_server: ProtocolWorld, authority: Path
) -> None:
    use_grpc(file, grpc_server)
    without = await file.process()
    use_grpc(file, grpc_server, caCertificates=(authority / "authority.pem").read_text())
    awake = await file.process("inferrun_runner.warm_up")
    ended = await file.process()
    assert without.code == 4
    assert (
        "CERTIFICATE_VERIFY_FAILED; if a private authority has signed the certificate, name it"
        in without.message
    )
    assert (awake.code, ended.code) == (0, 0), (awake.stdout, ended.stderr)
    assert grpc_server.server.received == [[[1.0, 2.0, 3.0, 4.0]]]


async def test_a_ca_bundle_and_the_authority_of_an_object_are_both_trusted_over_grpc(
    file: Machine, grpc_server: ProtocolWorld, authority: Path, self_signed: Path
) -> None:
    """Neither replaces the other."""
    use_grpc(file, grpc_server, caCertificates=(self_signed / "tls.crt").read_text())
    ended = await file.process(INFERRUN_CA_BUNDLE=str(authority / "authority.pem"))
    assert ended.code == 0, ended.message
    use_grpc(file, grpc_server, caCertificates=(authority / "authority.pem").read_text())
    again = await file.process(INFERRUN_CA_BUNDLE=str(self_signed / "tls.crt"))
    assert again.code == 0, again.message


async def test_what_is_no_certificate_is_reported(
    file: Machine, grpc_server: ProtocolWorld
) -> None:
    use_grpc(file, grpc_server, caCertificates="no certificate")
    ended = await file.process()
    assert ended.code == 2
    assert "kserve.serviceRef: the certificates of the model server cannot be read" in ended.message
