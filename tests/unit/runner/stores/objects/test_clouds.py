"""Which credentials the client of each cloud is given, and what is said about those that are
missing."""

import json
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from inferrun.plugins import ContractError, InputError
from inferrun.plugins.storage import read_spec
from inferrun.stores import AzureStorage, GcsStorage
from inferrun_runner.network.http_client import AiohttpClient
from inferrun_runner.stores.objects.azure import azure_cloud
from inferrun_runner.stores.objects.cloud import Cloud, Mount, Transport
from inferrun_runner.stores.objects.gcs import gcs_cloud

TRANSPORT = Transport(cast("AiohttpClient", None), {}, {"retry_timeout": timedelta(seconds=1)}, 1)
SECRET = {"credentialsRef": {"name": "key"}}
AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k"
ACCOUNT_KEY = "a2V5"
PRINCIPAL = {"tenantId": "tenant", "clientId": "client", "clientSecret": "password"}
IDENTITY = {
    "AZURE_TENANT_ID": "tenant",
    "AZURE_CLIENT_ID": "client",
    "AZURE_FEDERATED_TOKEN_FILE": "/token",
}


def _azure(folder: Path, **more: object) -> Cloud:
    spec = {"account": "records", "container": "batch", "path": "in", **more}
    return azure_cloud(
        read_spec(spec, AzureStorage, field="input.azure"), Mount(folder, "input.azure", InputError)
    )


def _gcs(folder: Path, **more: object) -> Cloud:
    spec = {"bucket": "records", "path": "in", **more}
    return gcs_cloud(
        read_spec(spec, GcsStorage, field="input.gcs"), Mount(folder, "input.gcs", InputError)
    )


def _mount(folder: Path, **keys: str) -> None:
    for name, value in keys.items():
        (folder / name).write_text(value)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"accountKey": ACCOUNT_KEY},
            {"credential_type": "access_key", "account_key": ACCOUNT_KEY},
        ),
        ({"sasToken": "?sv=1&sig=2"}, {"credential_type": "sas_token", "sas_key": "?sv=1&sig=2"}),
        (
            PRINCIPAL,
            {
                "credential_type": "client_secret",
                "tenant_id": "tenant",
                "client_id": "client",
                "client_secret": "password",
            },
        ),
    ],
)
def test_azure_uses_the_secret_even_in_a_pod_that_has_an_identity(
    keys: dict[str, str], expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    _mount(tmp_path, **keys)
    cloud = _azure(tmp_path, **SECRET)
    config = dict(cloud.open_store(TRANSPORT).config)
    assert expected.items() <= config.items()
    assert bool(cloud.identities) == ("tenantId" in keys)


def test_azure_without_a_secret_has_the_identity_of_the_pod_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = _azure(tmp_path)
    assert dict(cloud.open_store(TRANSPORT).config)["skip_signature"] == "true"
    assert cloud.identities == ()
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    cloud = _azure(tmp_path)
    config = dict(cloud.open_store(TRANSPORT).config)
    assert (config["credential_type"], config["federated_token_file"]) == (
        "workload_identity",
        "/token",
    )
    assert cloud.identities == ("https://login.microsoftonline.com",)


@pytest.mark.parametrize("keys", [{}, {"tenantId": "tenant", "clientId": "client"}])
def test_azure_names_the_keys_of_the_secret(keys: dict[str, str], tmp_path: Path) -> None:
    _mount(tmp_path, **keys)
    with pytest.raises(
        InputError, match=r"input\.azure\.credentialsRef: .*accountKey.*sasToken.*clientSecret"
    ):
        _azure(tmp_path, **SECRET)


@pytest.mark.parametrize(
    ("endpoint", "is_valid"),
    [
        ("http://127.0.0.1:10000/devstoreaccount1", True),
        ("https://records.blob.example", True),
        ("http://127.0.0.1:10000/a/b", False),
        ("ftp://records.example", False),
    ],
)
def test_azure_accepts_an_account_in_the_path_of_the_endpoint(
    endpoint: str, *, is_valid: bool, tmp_path: Path
) -> None:
    if is_valid:
        assert (
            dict(_azure(tmp_path, endpoint=endpoint).open_store(TRANSPORT).config)["endpoint"]
            == endpoint
        )
    else:
        with pytest.raises(ContractError, match=r"input\.azure\.endpoint"):
            _azure(tmp_path, endpoint=endpoint)


@pytest.mark.parametrize("text", ["", "[]", "no JSON", json.dumps({"type": "authorized_user"})])
def test_gcs_names_the_key_of_the_secret(text: str, tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text(text)
    with pytest.raises(
        InputError,
        match=r"input\.gcs\.credentialsRef: Secret 'key' has no key credentials\.json with",
    ):
        _gcs(tmp_path, **SECRET)


def test_gcs_has_a_key_an_identity_or_none(tmp_path: Path) -> None:
    identity = {"audience": AUDIENCE}
    anonymous = _gcs(tmp_path)
    assert "disable_oauth" in str(
        dict(anonymous.open_store(TRANSPORT).config)["service_account_key"]
    )
    assert (anonymous.identities, anonymous.upload) == ((), None)
    with pytest.raises(
        InputError, match=r"input\.gcs\.workloadIdentity: .* set serviceAccountName"
    ):
        _gcs(tmp_path, workloadIdentity=identity)
    (tmp_path / "token").touch()
    direct = _gcs(tmp_path, workloadIdentity=identity)
    assert direct.identities == ("https://sts.googleapis.com",)
    account = {"serviceAccount": "batch@project.iam.gserviceaccount.com"}
    impersonating = _gcs(tmp_path, workloadIdentity={**identity, **account})
    assert impersonating.identities == (
        "https://sts.googleapis.com",
        "https://iamcredentials.googleapis.com",
    )
    with pytest.raises(ContractError, match='workloadIdentity is "set"; excludes credentialsRef'):
        _gcs(tmp_path, workloadIdentity=identity, **SECRET)
