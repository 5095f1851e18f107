"""`inferrun migrate`: takes over what the earlier Go controller left, with the permissions of the
user.

Each pass reads everything, plans, and executes what is due; passes follow until nothing changes any
more. Every write has the version of the object that was read as its condition, so that a change in
between is planned anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeVar

import typer
from pydantic import ValidationError

from inferrun import wellknown
from inferrun.cli.app import ContextOption, KubeconfigOption, run_connected
from inferrun.cli.reporting import CommandExit, CommandFailed
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import (
    CONFIGS,
    DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    RUNS,
    Object,
    Resource,
)
from inferrun.resources import parse_config, parse_run
from inferrun.timestamps import utc_now
from inferrun_krateo.migration import (
    SETTLE,
    MigrationAction,
    MigrationStep,
    Owned,
    lines,
    plan_controllers,
    plan_run,
    plan_secrets,
)

CRON_JOBS: Final = Resource("batch/v1", "cronjobs")

PAGE: Final = "500"
MAX_PASSES: Final = 5
"""Passes after which a migration gives up on objects that keep changing."""

WAIT_SECONDS: Final = 10.0

Write = Callable[[str], None]
Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class MigrationPlan:
    """What is left to do. Nothing is changed while a controller has to be stopped."""

    controllers: tuple[MigrationAction, ...]
    runs: tuple[tuple[MigrationAction, ...], ...]
    secrets: tuple[MigrationAction, ...]

    @property
    def actions(self) -> list[MigrationAction]:
        """All actions, in order."""
        return [
            *self.controllers,
            *(action for actions in self.runs for action in actions),
            *self.secrets,
        ]


async def read_plan(api: KubeClient, *, namespace: str | None) -> MigrationPlan:
    """Read the objects and plan. Raises CommandFailed, KubeError."""
    await _require_definitions(api)
    runs = [
        (item, run)
        for item in await _all(api, RUNS, namespace)
        if (run := _parsed(parse_run, item)) is not None
    ]
    owned_by: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
    for resource in (JOBS, PODS, CRON_JOBS):
        for item in await _all(api, resource, namespace):
            for owner in item["metadata"].get("ownerReferences") or []:
                if owner.get("controller"):
                    owned_by[resource.plural, owner["uid"]].append(item)
    plans = []
    for item, run in runs:
        cron_job = next(iter(owned_by["cronjobs", run.metadata.uid]), None)
        owners = [
            run.metadata.uid,
            *([cron_job["metadata"]["uid"]] if cron_job is not None else []),
        ]
        jobs = [job for owner in owners for job in owned_by["jobs", owner]]
        pods = [pod for job in jobs for pod in owned_by["pods", job["metadata"]["uid"]]]
        plans.append(tuple(plan_run(item, run, Owned(jobs, pods, cron_job), now=utc_now())))
    configs = [_parsed(parse_config, item) for item in await _all(api, CONFIGS, None)]
    waiting = [run for _, run in runs if not run.status.is_terminal]
    return MigrationPlan(
        controllers=tuple(plan_controllers(await _all(api, DEPLOYMENTS, None))),
        runs=tuple(filter(None, plans)),
        secrets=tuple(plan_secrets(waiting, filter(None, configs))),
    )


async def apply_due(plan: MigrationPlan, api: KubeClient, *, report: Write) -> bool:
    """Execute what is due, per run until the first step that is not; returns whether anything was
    changed."""
    has_changed = False
    for actions in plan.runs:
        versions: dict[str, str] = {}
        for action in actions:
            if not action.step.is_change or not action.is_due:
                break
            read = action.target["metadata"]
            condition = {
                "uid": read["uid"],
                "resourceVersion": versions.get(read["uid"], read["resourceVersion"]),
            }
            body = {**action.change, "metadata": {**action.change.get("metadata", {}), **condition}}
            resource = CRON_JOBS if action.kind == "CronJob" else RUNS
            sub = "status" if "status" in action.change else None
            try:
                stored = await api.patch(resource, action.namespace, action.name, body, sub=sub)
            except (Conflict, NotFound):
                break  # it has changed: the next pass reads it again
            versions[read["uid"]] = stored["metadata"]["resourceVersion"]
            report(f"{action.step}: {action.kind} {action.namespace}/{action.name}")
            has_changed = True
    return has_changed


async def apply_all(
    api: KubeClient, *, namespace: str | None, must_wait: bool, report: Write
) -> list[MigrationAction]:
    """Apply until nothing is due any more; with `must_wait`, until Jobs that run have ended.
    Returns what is left."""
    changeless_passes = 0
    while True:
        plan = await read_plan(api, namespace=namespace)
        if plan.controllers:
            raise CommandFailed(
                "the earlier controller is still running", fix=plan.controllers[0].why
            )
        has_changed = await apply_due(plan, api, report=report)
        changeless_passes = 0 if has_changed else changeless_passes + 1
        left = plan.actions
        is_unfinished = any(one.step.is_change for one in left)
        is_waiting = any(one.step is MigrationStep.WAIT for one in left)
        if not has_changed and not is_unfinished and not (is_waiting and must_wait):
            return left
        if is_unfinished and changeless_passes >= MAX_PASSES:
            return left
        if not has_changed:
            await asyncio.sleep(SETTLE.total_seconds() if is_unfinished else WAIT_SECONDS)


async def _require_definitions(api: KubeClient) -> None:
    """The definitions must be ours already: the earlier ones would drop what is written."""
    fix = "install the chart first: helm install inferrun CHART --take-ownership"
    name = f"{wellknown.RUN_PLURAL}.{wellknown.GROUP}"
    try:
        definition = await api.get(DEFINITIONS, None, name)
    except NotFound as error:
        raise CommandFailed(f"the definition {name} does not exist", fix=fix) from error
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if "phase" not in (schema.get("status", {}).get("properties") or {}):
        raise CommandFailed(f"the definition {name} is that of the earlier controller", fix=fix)


async def _all(api: KubeClient, resource: Resource, namespace: str | None) -> list[Object]:
    items: list[Object] = []
    more: dict[str, str] = {}
    while True:
        page = await api.list(resource, namespace, limit=PAGE, **more)
        items += page.get("items") or []
        if not (token := (page.get("metadata") or {}).get("continue")):
            return items
        more = {"continue": token}


def _parsed(parse: Callable[[Object], Parsed], item: Object) -> Parsed | None:
    """The resource; None if it cannot be read, which the shim reports."""
    try:
        return parse(item)
    except ValidationError:
        return None


def migrate(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --apply: wait for the Jobs that are running.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Only this namespace. Default: all.",
            show_default=False,
        ),
    ] = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Take over from the earlier Go controller (kserve-controller).

    Records the outcomes of its runs, moves schedules from CronJobs to Temporal, and removes its
    finalizers, with your own permissions. It never executes a run again and never ends a Job that
    runs. It can be interrupted and repeated.
    """
    say = partial(print, flush=True)

    async def work(client: AsyncClient) -> int:
        if dry_run == apply:
            raise InvalidRequest("give either --dry-run or --apply")
        if dry_run:
            actions = (await read_plan(client.kube, namespace=namespace)).actions
            say("\n".join(lines(actions)) if actions else "nothing to migrate")
            if actions:
                say("\nnothing was changed; inferrun migrate --apply does this")
            return CommandExit.OK
        left = await apply_all(client.kube, namespace=namespace, must_wait=wait, report=say)
        say("\nleft as it is:\n" + "\n".join(lines(left)) if left else "nothing is left to migrate")
        if all(action.step is MigrationStep.LEAVE or action.kind == "Secret" for action in left):
            return CommandExit.OK
        say("\nrun the same command again once these are resolved")
        return CommandExit.FAILED

    run_connected(work, namespace=namespace, context=context, kubeconfig=kubeconfig)
