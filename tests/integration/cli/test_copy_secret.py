"""The command `copy-secret` against a real API server."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES, SECRETS, Resource
from tests.integration.cli.stage import Printed, run_command

SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")
VALUE = "not-to-be-printed"
ENCODED = b64encode(VALUE.encode()).decode()


@pytest.fixture
async def namespaces(api: KubeClient) -> AsyncIterator[tuple[str, str]]:
    """Two namespaces, of which the first has a Secret named handler."""
    names = (f"from-{token_hex(4)}", f"to-{token_hex(4)}")
    created = [
        await api.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        for name in names
    ]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "handler", "labels": {"team": "a"}},
        "type": "example.com/endpoint",
        "data": {"server-url": ENCODED, "token": ENCODED},
    }
    await api.create(SECRETS, names[0], secret)
    yield names
    for item in created:
        await api.delete(NAMESPACES, "", item["metadata"]["name"], uid=item["metadata"]["uid"])


def copy(kubeconfig: Path, *, source: str, target: str, name: str = "handler") -> Printed:
    words = ("copy-secret", name, "--from", source, "--to", target, "--kubeconfig", str(kubeconfig))
    printed = run_command(*words)
    assert VALUE not in printed.out + printed.err
    assert ENCODED not in printed.out + printed.err
    return printed


async def test_data_and_type_of_a_secret_are_copied(
    api: KubeClient, kubeconfig: Path, namespaces: tuple[str, str]
) -> None:
    source, target = namespaces
    printed = copy(kubeconfig, source=source, target=target)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out == f"Secret handler copied from namespace {source} to namespace {target}\n"
    stored = await api.get(SECRETS, target, "handler")
    assert stored["data"] == {"server-url": ENCODED, "token": ENCODED}
    assert stored["type"] == "example.com/endpoint"
    assert "labels" not in stored["metadata"]


async def test_an_existing_secret_is_not_overwritten(
    api: KubeClient, kubeconfig: Path, namespaces: tuple[str, str]
) -> None:
    source, target = namespaces
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "handler"},
        "data": {"other": ENCODED},
    }
    await api.create(SECRETS, target, body)
    printed = copy(kubeconfig, source=source, target=target)
    assert printed.code == 1
    assert f"Secret handler already exists in namespace {target}" in printed.err
    assert (await api.get(SECRETS, target, "handler"))["data"] == {"other": ENCODED}


def test_without_permission_to_read_secrets_nothing_is_copied(
    stranger: Path, namespaces: tuple[str, str]
) -> None:
    source, target = namespaces
    printed = copy(stranger, source=source, target=target)
    assert printed.code == 1
    assert f"you are not allowed to read Secret handler in namespace {source}" in printed.err


async def test_without_permission_to_create_secrets_nothing_is_copied(
    api: KubeClient, stranger: Path, namespaces: tuple[str, str]
) -> None:
    source, target = namespaces
    role = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    await api.create(Resource("rbac.authorization.k8s.io/v1", "roles"), source, role)
    subjects = [
        {"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"}
    ]
    reference = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "reader"}, "subjects": subjects, "roleRef": reference}
    await api.create(Resource("rbac.authorization.k8s.io/v1", "rolebindings"), source, binding)
    printed = copy(stranger, source=source, target=target)
    assert printed.code == 1
    assert f"Secret handler cannot be created in namespace {target}" in printed.err
    assert "fix:   ask an administrator" in printed.err


async def test_a_service_accounts_token_is_not_copied(
    api: KubeClient, kubeconfig: Path, namespaces: tuple[str, str]
) -> None:
    source, target = namespaces
    # without it, its token is deleted
    await api.create(SERVICE_ACCOUNTS, source, {"metadata": {"name": "owner"}})
    account = {"name": "token", "annotations": {"kubernetes.io/service-account.name": "owner"}}
    await api.create(
        SECRETS, source, {"metadata": account, "type": "kubernetes.io/service-account-token"}
    )
    printed = copy(kubeconfig, source=source, target=target, name="token")
    assert printed.code == 1
    assert "which cannot be used in another namespace" in printed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"name": "absent"}, "Secret absent does not exist in namespace"),
        (
            {"target": "absent"},
            "namespace absent does not exist\nfix:   create it: kubectl create namespace absent",
        ),
        ({"source": "default", "target": "default"}, "--from and --to are both default"),
    ],
)
def test_a_request_that_names_what_does_not_exist_is_an_error(
    kubeconfig: Path, namespaces: tuple[str, str], words: dict[str, str], said: str
) -> None:
    printed = copy(kubeconfig, **{"source": namespaces[0], "target": namespaces[1], **words})
    assert printed.code == 1
    assert said in printed.err
