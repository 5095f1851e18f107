"""The config's CA bundle, against servers whose certificates a private authority has signed."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inferrun_runner.warm_up import IN_A_ROW
from tests.integration.runner.authority import server_context
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.servers import CountingModel, counting_model, data_handler
from tests.integration.runner.test_warm_up import server


@pytest.fixture
def tls(authority: Path) -> ssl.SSLContext:
    return server_context(authority)


@pytest.fixture
async def secured(tls: ssl.SSLContext) -> AsyncIterator[CountingModel]:
    async with counting_model(tls=tls) as server:
        yield server


def bundle(authority: Path) -> dict[str, str]:
    """The variable that the control plane sets."""
    return {"INFERRUN_CA_BUNDLE": str(authority / "authority.pem")}


def use(machine: Machine, model: CountingModel) -> None:
    machine.contract["kserve"]["modelUrl"] = f"{model.url}/v2/models/sum/infer"


async def test_the_model_server_and_the_data_handler_are_trusted(
    krateo: Machine, secured: CountingModel, tls: ssl.SSLContext, authority: Path
) -> None:
    use(krateo, secured)
    async with data_handler(tls=tls) as handler:
        handler.rows = [[1.0, 2.0]]
        for side in ("input", "output"):
            krateo.endpoint(side, {"server-url": handler.url})
        without = await krateo.process()
        ended = await krateo.process(**bundle(authority))
    assert (without.code, ended.code) == (3, 0), ended.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in without.message
    assert handler.predictions() == [3.0]


async def test_an_s3_server_is_trusted(
    file: Machine, secured: CountingModel, authority: Path, tmp_path: Path
) -> None:
    use(file, secured)
    credentials(file.folder / "endpoints" / "output")
    file.write_rows([[1.0, 2.0]])
    async with s3_server(tmp_path / "s3", certificate=authority / "server.pem") as server:
        file.contract["output"] = {"s3": server.spec("out")}
        without = await file.process()
        ended = await file.process(**bundle(authority))
    assert (without.code, ended.code) == (5, 0), ended.stderr
    assert [path.name for path in (server.bucket / "out").rglob("*.jsonl")]


async def test_the_warm_up_trusts_the_model_server(
    krateo: Machine, tls: ssl.SSLContext, authority: Path
) -> None:
    async with server(lambda _: (200, ""), tls=tls) as (url, paths):
        krateo.contract["kserve"]["modelUrl"] = f"{url}/v2/models/sum/infer"
        ended = await krateo.process(
            "inferrun_runner.warm_up", INFERRUN_WARM_UP_SECONDS="60", **bundle(authority)
        )
    assert ended.code == 0, ended.stdout
    assert paths == ["/v2/models/sum/ready"] * IN_A_ROW


@pytest.mark.parametrize(
    "content",
    ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
async def test_a_bundle_without_a_certificate_is_reported(
    krateo: Machine, tmp_path: Path, content: str
) -> None:
    (tmp_path / "ca.crt").write_text(content)
    ended = await krateo.process(INFERRUN_CA_BUNDLE=str(tmp_path / "ca.crt"))
    assert ended.code == 2
    assert "spec.caBundle: the certificates in the ConfigMap cannot be read" in ended.message
