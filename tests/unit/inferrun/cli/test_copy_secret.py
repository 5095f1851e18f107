"""Copying a Secret: what is copied, and the error for each way in which it fails."""

import pytest

from inferrun.cli.copy_secret import Copy, CopyFailed, copied, copy_secret
from inferrun.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from inferrun.kube.objects import Object, Resource

COPY = Copy(name="handler", source="shared", target="models")
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "handler", "namespace": "shared", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "type": "kubernetes.io/basic-auth",
    "data": {"password": "c2VjcmV0"},
    "immutable": True,
}


class FakeSecrets:
    """One Secret; `read_error` and `write_error` are raised instead of responding."""

    def __init__(self, secret: Object) -> None:
        self.secret = secret
        self.read_error: KubeError | None = None
        self.write_error: KubeError | None = None
        self.created: list[tuple[str | None, Object]] = []

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """The Secret."""
        assert (resource.plural, namespace, name) == ("secrets", "shared", "handler")
        if self.read_error is not None:
            raise self.read_error
        return self.secret

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Record the copy."""
        assert resource.plural == "secrets"
        if self.write_error is not None:
            raise self.write_error
        self.created.append((namespace, body))
        return body


def test_a_copy_has_name_data_and_type_and_nothing_else() -> None:
    assert copied(SECRET) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "handler"},
        "type": "kubernetes.io/basic-auth",
        "data": {"password": "c2VjcmV0"},
    }


def test_a_secret_without_data_can_be_copied() -> None:
    assert copied({"metadata": {"name": "empty"}})["data"] == {}


async def test_a_secret_is_created_in_the_target_namespace() -> None:
    secrets = FakeSecrets(SECRET)
    await copy_secret(COPY, secrets)
    assert secrets.created == [("models", copied(SECRET))]


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (
            NotFound("x", status=404),
            "Secret handler does not exist in namespace shared",
            "kubectl get secrets -n shared",
        ),
        (Forbidden("x", status=403), "not allowed to read Secret handler in namespace shared", "administrator"),
    ],
)
async def test_a_secret_that_cannot_be_read_is_an_error(error: KubeError, message: str, fix: str) -> None:
    secrets = FakeSecrets(SECRET)
    secrets.read_error = error
    with pytest.raises(CopyFailed, match=message) as failed:
        await copy_secret(COPY, secrets)
    assert fix in failed.value.fix
    assert secrets.created == []


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (
            AlreadyExists("x", status=409),
            "Secret handler already exists in namespace models",
            "kubectl delete secret handler -n models",
        ),
        (NotFound("x", status=404), "namespace models does not exist", "kubectl create namespace models"),
        (
            Forbidden("exceeded quota", status=403),
            "cannot be created in namespace models: exceeded quota",
            "administrator",
        ),
    ],
)
async def test_a_copy_that_cannot_be_created_is_an_error(error: KubeError, message: str, fix: str) -> None:
    secrets = FakeSecrets(SECRET)
    secrets.write_error = error
    with pytest.raises(CopyFailed, match=message) as failed:
        await copy_secret(COPY, secrets)
    assert fix in failed.value.fix


async def test_a_service_accounts_token_is_not_copied() -> None:
    secrets = FakeSecrets({**SECRET, "type": "kubernetes.io/service-account-token"})
    with pytest.raises(CopyFailed, match="cannot be used in another namespace"):
        await copy_secret(COPY, secrets)
    assert secrets.created == []


async def test_the_two_namespaces_must_differ() -> None:
    with pytest.raises(CopyFailed, match="--from and --to are both shared"):
        await copy_secret(Copy(name="handler", source="shared", target="shared"), FakeSecrets(SECRET))
