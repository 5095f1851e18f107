"""The commands `doctor` and `copy-secret`, for whoever operates an installation.

A Pod can only use Secrets of its own namespace, and the product itself has no access to Secrets:
copying one is a task for its owner, with the owner's permissions. Values are neither printed nor
logged.
"""

import re
from typing import Annotated, Final

import typer

from inferrun.cli.reporting import CommandExit, CommandFailed
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.kube.errors import AlreadyExists, Forbidden, NotFound
from inferrun.kube.objects import SECRETS
from inferrun.names import LABEL_LIMIT, LABEL_PATTERN, is_subdomain

BOUND_TYPES: Final = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets that only work in their own namespace."""

ADMINISTRATOR_FIX: Final = "ask an administrator for this permission, or to run the command"


async def doctor(
    client: AsyncClient,
    *,
    install_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the installation.")
    ] = "inferrun-system",
    release: Annotated[str, typer.Option(metavar="NAME", help="Helm release.")] = "inferrun",
) -> int:
    """Diagnose an installation and report each problem with its fix. Changes nothing.

    Checks the two custom resource definitions, your permissions and those of shim and worker, the
    Deployments and settings of shim and worker, and Temporal: its address, namespace and search
    attributes, and the workers that poll its task queues.

    Temporal is selected as in every Temporal client (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
    TEMPORAL_API_KEY, or Temporal's configuration file), otherwise the server that the installation
    uses.
    """
    # Imported only here: it needs Temporal's SDK, for whose import all other commands would wait.
    from inferrun.cli.doctor import Question, diagnose  # noqa: PLC0415

    question = Question(
        install_namespace=install_namespace, release=release, namespace=client.namespace
    )
    return await diagnose(question, client.kube, source=client.server)


async def copy_secret(
    client: AsyncClient,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the Secret.")],
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="NAMESPACE", help="Namespace of the Secret.")
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="NAMESPACE", help="Namespace of the copy.")
    ],
) -> int:
    """Copy a Secret to another namespace.

    Copies the data and the type of the Secret, with your own permissions. The copy has no labels or
    annotations of the original. Values are never printed. An existing Secret is not overwritten.
    """
    if not is_subdomain(name):
        raise InvalidRequest(f"{name!r} is not a valid name of a Kubernetes object")
    for place in (source, target):
        if len(place) > LABEL_LIMIT or not re.fullmatch(LABEL_PATTERN, place):
            raise InvalidRequest(f"{place!r} is not a valid namespace")
    if source == target:
        raise CommandFailed(
            f"--from and --to are both {source}", fix="name two different namespaces"
        )
    try:
        secret = await client.kube.get(SECRETS, source, name)
    except NotFound as error:
        text = f"Secret {name} does not exist in namespace {source}"
        raise CommandFailed(text, fix=f"check the name: kubectl get secrets -n {source}") from error
    except Forbidden as error:
        text = f"you are not allowed to read Secret {name} in namespace {source}"
        raise CommandFailed(text, fix=ADMINISTRATOR_FIX) from error
    kind = secret.get("type", "Opaque")
    if kind in BOUND_TYPES:
        text = f"Secret {name} has type {kind}, which cannot be used in another namespace"
        raise CommandFailed(text, fix=f"create a Secret of another type in namespace {target}")
    copy = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind}
    try:
        await client.kube.create(SECRETS, target, {**copy, "data": secret.get("data") or {}})
    except AlreadyExists as error:
        fix = f"to replace it, delete it first: kubectl delete secret {name} -n {target}"
        raise CommandFailed(
            f"Secret {name} already exists in namespace {target}", fix=fix
        ) from error
    except NotFound as error:
        fix = f"create it: kubectl create namespace {target}"
        raise CommandFailed(f"namespace {target} does not exist", fix=fix) from error
    except Forbidden as error:
        text = f"Secret {name} cannot be created in namespace {target}: {error}"
        raise CommandFailed(text, fix=ADMINISTRATOR_FIX) from error
    print(f"Secret {name} copied from namespace {source} to namespace {target}")
    return CommandExit.OK
