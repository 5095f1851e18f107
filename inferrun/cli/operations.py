"""The commands for whoever operates an installation. Each is described here, and done in a module of its own."""

import re
from typing import Annotated

import typer

from inferrun.cli import copy_secret as copying
from inferrun.cli import migrate as migrating
from inferrun.cli.app import CommandExit, ContextOption, KubeconfigOption, run_connected
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.names import LABEL_LIMIT, LABEL_PATTERN, is_subdomain


async def doctor(
    client: AsyncClient,
    *,
    install_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the installation.")
    ] = "inferrun-system",
    release: Annotated[str, typer.Option(metavar="NAME", help="Helm release.")] = "inferrun",
) -> int:
    """Diagnose an installation and report each problem with its fix. Changes nothing.

    Checks the two custom resource definitions, your permissions and those of shim and worker, the Deployments and settings of
    shim and worker, and Temporal: its address, namespace and search attributes, and the workers that poll its task queues.

    Temporal is selected as in every Temporal client (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, or
    Temporal's configuration file), otherwise the server that the installation uses.
    """
    # Imported only here: it needs Temporal's SDK, for whose import all other commands would wait.
    from inferrun.cli.doctor import Question, diagnose  # noqa: PLC0415

    question = Question(install_namespace=install_namespace, release=release, namespace=client.namespace)
    return await diagnose(question, client.kube, source=client.server)


async def copy_secret(
    client: AsyncClient,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the Secret.")],
    *,
    source: Annotated[str, typer.Option("--from", metavar="NAMESPACE", help="Namespace of the Secret.")],
    target: Annotated[str, typer.Option("--to", metavar="NAMESPACE", help="Namespace of the copy.")],
) -> int:
    """Copy a Secret to another namespace.

    Copies the data and the type of the Secret, with your own permissions. The copy has no labels or annotations of the
    original. Values are never printed. An existing Secret is not overwritten.
    """
    if not is_subdomain(name):
        raise InvalidRequest(f"{name!r} is not a valid name of a Kubernetes object")
    for place in (source, target):
        if len(place) > LABEL_LIMIT or not re.fullmatch(LABEL_PATTERN, place):
            raise InvalidRequest(f"{place!r} is not a valid namespace")
    await copying.copy_secret(client.kube, name=name, source=source, target=target)
    print(f"Secret {name} copied from namespace {source} to namespace {target}")
    return CommandExit.OK


def migrate(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="With --apply: wait for the Jobs that are running.")] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Only this namespace. Default: all.", show_default=False
        ),
    ] = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Take over from the earlier Go controller (kserve-controller).

    Records the outcomes of its runs, moves schedules from CronJobs to Temporal, and removes its finalizers, with your own
    permissions. It never executes a run again and never ends a Job that runs. It can be interrupted and repeated.
    """

    async def work(client: AsyncClient) -> int:
        if dry_run == apply:
            raise InvalidRequest("give either --dry-run or --apply")
        return await migrating.migrate_or_plan(client.kube, namespace=namespace, must_apply=apply, must_wait=wait)

    run_connected(work, namespace=namespace, context=context, kubeconfig=kubeconfig)
