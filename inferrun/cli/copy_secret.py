"""`inferrun copy-secret`: copies a Secret to another namespace, with the permissions of the user.

A Pod can only use Secrets of its own namespace. The product itself has no access to Secrets, so copying one is a task for
its owner. Values are neither printed nor logged.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from inferrun.cli.kubeconfig import FIX, report_error, user_cluster
from inferrun.kube.errors import AlreadyExists, Forbidden, KubeError, NotConfigured, NotFound
from inferrun.kube.objects import SECRETS, Object, Resource

COPIED: Final = 0
NOT_COPIED: Final = 1
USAGE_ERROR: Final = 2

BOUND_TYPES: Final = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets that only work in their own namespace."""

ADMINISTRATOR_FIX: Final = "ask an administrator for this permission, or to run the command"


@dataclass(frozen=True)
class Copy:
    """A Secret and the namespaces from which and to which it is copied."""

    name: str
    source: str
    target: str


class CopyFailed(Exception):
    """The Secret was not copied; `fix` is what the user can do about it."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class Secrets(Protocol):
    """The requests that copying needs; `KubeClient` implements them."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Create an object."""


async def copy_secret(copy: Copy, api: Secrets) -> None:
    """Copy a Secret. Raises CopyFailed."""
    if copy.source == copy.target:
        raise CopyFailed(f"--from and --to are both {copy.source}", fix="name two different namespaces")
    secret = await _read(copy, api)
    if secret.get("type") in BOUND_TYPES:
        text = f"Secret {copy.name} has type {secret['type']}, which cannot be used in another namespace"
        raise CopyFailed(text, fix=f"create a Secret of another type in namespace {copy.target}")
    await _create(copy, api, body=copied(secret))


def copied(secret: Object) -> Object:
    """A new Secret with the name, data and type of another one, and nothing else of it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret["metadata"]["name"]},
        "type": secret.get("type", "Opaque"),
        "data": secret.get("data") or {},
    }


async def _read(copy: Copy, api: Secrets) -> Object:
    try:
        return await api.get(SECRETS, copy.source, copy.name)
    except NotFound as error:
        text = f"Secret {copy.name} does not exist in namespace {copy.source}"
        raise CopyFailed(text, fix=f"check the name: kubectl get secrets -n {copy.source}") from error
    except Forbidden as error:
        text = f"you are not allowed to read Secret {copy.name} in namespace {copy.source}"
        raise CopyFailed(text, fix=ADMINISTRATOR_FIX) from error


async def _create(copy: Copy, api: Secrets, *, body: Object) -> None:
    try:
        await api.create(SECRETS, copy.target, body)
    except AlreadyExists as error:
        text = f"Secret {copy.name} already exists in namespace {copy.target}"
        fix = f"to replace it, delete it first: kubectl delete secret {copy.name} -n {copy.target}"
        raise CopyFailed(text, fix=fix) from error
    except NotFound as error:
        text = f"namespace {copy.target} does not exist"
        raise CopyFailed(text, fix=f"create it: kubectl create namespace {copy.target}") from error
    except Forbidden as error:
        text = f"Secret {copy.name} cannot be created in namespace {copy.target}: {error}"
        raise CopyFailed(text, fix=ADMINISTRATOR_FIX) from error


def run(copy: Copy, *, kubeconfig: Path | None, context: str | None) -> int:
    """Copy a Secret in the user's cluster and report the outcome; returns the exit code."""
    try:
        asyncio.run(_copy_in_user_cluster(copy, kubeconfig=kubeconfig, context=context))
    except NotConfigured as error:
        report_error(str(error), fix=FIX)
        return USAGE_ERROR
    except CopyFailed as error:
        report_error(str(error), fix=error.fix)
        return NOT_COPIED
    except (KubeError, OSError) as error:
        report_error(str(error), fix="check the connection to the cluster: kubectl version")
        return NOT_COPIED
    print(f"Secret {copy.name} copied from namespace {copy.source} to namespace {copy.target}")
    return COPIED


async def _copy_in_user_cluster(copy: Copy, *, kubeconfig: Path | None, context: str | None) -> None:
    async with user_cluster(kubeconfig, context=context) as (api, _):
        await copy_secret(copy, api)
