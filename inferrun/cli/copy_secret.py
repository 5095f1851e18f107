"""`inferrun copy-secret`: copies a Secret to another namespace, with the permissions of the user.

A Pod can only use Secrets of its own namespace. The product itself has no access to Secrets, so copying one is a task for
its owner. Values are neither printed nor logged.
"""

from typing import Final

from inferrun.cli.app import CommandFailed
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, NotFound
from inferrun.kube.objects import SECRETS

BOUND_TYPES: Final = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets that only work in their own namespace."""

ADMINISTRATOR_FIX: Final = "ask an administrator for this permission, or to run the command"


async def copy_secret(api: KubeClient, *, name: str, source: str, target: str) -> None:
    """Copy name, data and type of a Secret, and nothing else of it. Raises CommandFailed."""
    if source == target:
        raise CommandFailed(f"--from and --to are both {source}", fix="name two different namespaces")
    try:
        secret = await api.get(SECRETS, source, name)
    except NotFound as error:
        text = f"Secret {name} does not exist in namespace {source}"
        raise CommandFailed(text, fix=f"check the name: kubectl get secrets -n {source}") from error
    except Forbidden as error:
        text = f"you are not allowed to read Secret {name} in namespace {source}"
        raise CommandFailed(text, fix=ADMINISTRATOR_FIX) from error
    if secret.get("type") in BOUND_TYPES:
        text = f"Secret {name} has type {secret['type']}, which cannot be used in another namespace"
        raise CommandFailed(text, fix=f"create a Secret of another type in namespace {target}")
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": secret.get("type", "Opaque"),
        "data": secret.get("data") or {},
    }
    try:
        await api.create(SECRETS, target, body)
    except AlreadyExists as error:
        fix = f"to replace it, delete it first: kubectl delete secret {name} -n {target}"
        raise CommandFailed(f"Secret {name} already exists in namespace {target}", fix=fix) from error
    except NotFound as error:
        fix = f"create it: kubectl create namespace {target}"
        raise CommandFailed(f"namespace {target} does not exist", fix=fix) from error
    except Forbidden as error:
        text = f"Secret {name} cannot be created in namespace {target}: {error}"
        raise CommandFailed(text, fix=ADMINISTRATOR_FIX) from error
