"""`inferrun migrate`: takes over what the earlier Go controller left, with the permissions of the user.

Each pass reads everything, plans, and executes what is due; passes follow until nothing changes any more. Every write has
the version of the object that was read as its condition, so that a change in between is planned anew.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pydantic import ValidationError

from inferrun import wellknown
from inferrun.cli.kubeconfig import FIX, report_error, user_cluster
from inferrun.cli.migration import (
    ANNOTATION_SUSPENDED,
    SETTLE,
    Action,
    Owned,
    Step,
    lines,
    plan_controllers,
    plan_run,
    plan_secrets,
)
from inferrun.control.run_status import ended_status
from inferrun.kube.errors import Conflict, KubeError, NotConfigured, NotFound
from inferrun.kube.objects import CONFIGS, JOBS, PODS, RUNS, Object, Resource
from inferrun.kube.runs import merge_patch
from inferrun.resources import InferenceConfig, InferenceRun, parse_config, parse_run
from inferrun.timestamps import rfc3339, utc_now

DEFINITIONS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
DEPLOYMENTS: Final = Resource("apps/v1", "deployments")
CRON_JOBS: Final = Resource("batch/v1", "cronjobs")

DONE: Final = 0
SOMETHING_LEFT: Final = 1
USAGE_ERROR: Final = 2

PAGE: Final = "500"
MAX_PASSES: Final = 5
"""Passes after which a migration gives up on objects that keep changing."""

WAIT_SECONDS: Final = 10.0

Write = Callable[[str], None]


class Cluster(Protocol):
    """The requests that the migration needs; `KubeClient` implements them."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object."""

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        """A list object."""

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Object, *, sub: str | None = None
    ) -> Object:
        """Merge `body` into an object."""


class CannotMigrate(Exception):
    """Nothing was changed; `fix` is what the user can do about it."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True)
class Plan:
    """What is left to do. Nothing is changed while a controller has to be stopped."""

    controllers: tuple[Action, ...]
    runs: tuple[tuple[Action, ...], ...]
    secrets: tuple[Action, ...]

    @property
    def actions(self) -> list[Action]:
        """All actions, in order."""
        return [*self.controllers, *(action for actions in self.runs for action in actions), *self.secrets]


async def read_plan(api: Cluster, *, namespace: str | None) -> Plan:
    """Read the objects and plan. Raises CannotMigrate, KubeError."""
    await _require_definitions(api)
    items = [(item, run) for item in await _all(api, RUNS, namespace) if (run := _parse(item)) is not None]
    owned = await _read_owned(api, namespace)
    now = utc_now()
    plans = (plan_run(item, run, owned[run.metadata.uid], now=now) for item, run in items)
    configs = [config for item in await _all(api, CONFIGS, None) if (config := _parse_config(item)) is not None]
    return Plan(
        controllers=tuple(plan_controllers(await _all(api, DEPLOYMENTS, None))),
        runs=tuple(tuple(actions) for actions in plans if actions),
        secrets=tuple(plan_secrets([run for _, run in items if not run.status.is_terminal], configs)),
    )


async def apply(plan: Plan, api: Cluster, *, report: Write) -> bool:
    """Execute what is due, per run until the first step that is not; returns whether anything was changed."""
    has_changed = False
    for actions in plan.runs:
        for action in actions:
            if not action.step.is_change or not action.is_due:
                break
            try:
                await _execute(action, api)
            except (Conflict, NotFound):
                break  # it has changed: the next pass reads it again
            report(f"{action.step}: {action.kind} {action.namespace}/{action.name}")
            has_changed = True
    return has_changed


async def _execute(action: Action, api: Cluster) -> None:
    steps: dict[Step, Callable[[Action, Cluster], Awaitable[None]]] = {
        Step.RECORD: _record,
        Step.SUSPEND_CRON_JOB: _suspend_cron_job,
        Step.SUSPEND_RUN: _suspend_run,
        Step.HAND_OVER: _hand_over,
        Step.STRIP: _strip,
    }
    await steps[action.step](action, api)


async def _record(action: Action, api: Cluster) -> None:
    outcome = action.outcome
    assert outcome is not None  # noqa: S101 -- every plan to record has one
    run = parse_run(action.target)
    status = ended_status(
        run,
        phase=outcome.phase,
        reason=outcome.reason,
        message=outcome.message,
        now=utc_now(),
        finished=outcome.finished_at,
        earliest=outcome.started_at,  # of the Job, by the clock of its controller; a run from a backup was created later
        start_time=outcome.started_at,
        exit_code=outcome.exit_code,
        delivery="Unknown",
    )
    change = merge_patch(run.status.to_manifest(), status.to_manifest())
    await api.patch(RUNS, action.namespace, action.name, _if_unchanged(action, {"status": change}), sub="status")


async def _suspend_cron_job(action: Action, api: Cluster) -> None:
    metadata = {"annotations": {ANNOTATION_SUSPENDED: rfc3339(utc_now())}}
    body = _if_unchanged(action, {"metadata": metadata, "spec": {"suspend": True}})
    await api.patch(CRON_JOBS, action.namespace, action.name, body)


async def _suspend_run(action: Action, api: Cluster) -> None:
    await api.patch(RUNS, action.namespace, action.name, _if_unchanged(action, {"spec": {"suspend": True}}))


async def _hand_over(action: Action, api: Cluster) -> None:
    body = _if_unchanged(action, {"status": {"conditions": None, "contract": None, "jobStatus": None}})
    await api.patch(RUNS, action.namespace, action.name, body, sub="status")


async def _strip(action: Action, api: Cluster) -> None:
    """Remove the finalizer from the run as it is now: an earlier step of this pass may have changed it."""
    stored = await api.get(RUNS, action.namespace, action.name)
    if stored["metadata"]["uid"] != action.target["metadata"]["uid"]:
        return
    finalizers = stored["metadata"].get("finalizers") or []
    others = [name for name in finalizers if name != wellknown.LEGACY_FINALIZER]
    condition = {"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]}
    await api.patch(RUNS, action.namespace, action.name, {"metadata": {**condition, "finalizers": others}})


def _if_unchanged(action: Action, body: Object) -> Object:
    """The body with the identity and the version of what was read as its condition."""
    metadata = action.target["metadata"]
    condition = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {**body, "metadata": {**body.get("metadata", {}), **condition}}


async def migrate(api: Cluster, *, namespace: str | None, must_wait: bool, report: Write) -> list[Action]:
    """Apply until nothing is due any more; with `must_wait`, until Jobs that run have ended. Returns what is left."""
    changeless_passes = 0
    while True:
        plan = await read_plan(api, namespace=namespace)
        if plan.controllers:
            raise CannotMigrate("the earlier controller is still running", fix=plan.controllers[0].why)
        has_changed = await apply(plan, api, report=report)
        changeless_passes = 0 if has_changed else changeless_passes + 1
        left = plan.actions
        is_unfinished = any(one.step.is_change for one in left)
        is_waiting = any(one.step is Step.WAIT for one in left)
        if not has_changed and not is_unfinished and not (is_waiting and must_wait):
            return left
        if is_unfinished and changeless_passes >= MAX_PASSES:
            return left
        if not has_changed:
            await asyncio.sleep(SETTLE.total_seconds() if is_unfinished else WAIT_SECONDS)


async def _require_definitions(api: Cluster) -> None:
    """The definitions must be ours already: the earlier ones would drop what is written."""
    fix = "install the chart's definitions first: kubectl apply --server-side --force-conflicts -f CHART/crds/"
    name = f"{wellknown.RUN_PLURAL}.{wellknown.GROUP}"
    try:
        definition = await api.get(DEFINITIONS, None, name)
    except NotFound as error:
        raise CannotMigrate(f"the definition {name} does not exist", fix=fix) from error
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if "phase" not in (schema.get("status", {}).get("properties") or {}):
        raise CannotMigrate(f"the definition {name} is that of the earlier controller", fix=fix)


async def _read_owned(api: Cluster, namespace: str | None) -> defaultdict[str, Owned]:
    """What belongs to each run, by its UID."""
    jobs, pods = _by_owner(await _all(api, JOBS, namespace)), _by_owner(await _all(api, PODS, namespace))
    cron_jobs = _by_owner(await _all(api, CRON_JOBS, namespace))
    found: defaultdict[str, Owned] = defaultdict(Owned)
    for uid in {*jobs, *cron_jobs}:
        cron_job = next(iter(cron_jobs.get(uid, [])), None)
        of_cron_job = jobs.get(cron_job["metadata"]["uid"], []) if cron_job is not None else []
        own = [*jobs.get(uid, []), *of_cron_job]
        found[uid] = Owned(own, [pod for job in own for pod in pods.get(job["metadata"]["uid"], [])], cron_job)
    return found


def _by_owner(items: Sequence[Object]) -> defaultdict[str, list[Object]]:
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for item in items:
        for owner in item["metadata"].get("ownerReferences") or []:
            if owner.get("controller"):
                found[owner["uid"]].append(item)
    return found


async def _all(api: Cluster, resource: Resource, namespace: str | None) -> list[Object]:
    """All objects, page by page."""
    items: list[Object] = []
    params = {"limit": PAGE}
    while True:
        page = await api.list(resource, namespace, **params)
        items += page.get("items") or []
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return items
        params = {"limit": PAGE, "continue": token}


def _parse(item: Object) -> InferenceRun | None:
    """The run; None if it cannot be read, which the shim reports."""
    try:
        return parse_run(item)
    except ValidationError:
        return None


def _parse_config(item: Object) -> InferenceConfig | None:
    try:
        return parse_config(item)
    except ValidationError:
        return None


@dataclass(frozen=True)
class Options:
    """What to migrate, and whether to do it."""

    namespace: str | None
    is_dry_run: bool
    must_wait: bool


def run(options: Options, *, kubeconfig: Path | None, context: str | None) -> int:
    """Migrate in the user's cluster and print what is, or would be, done; returns the exit code."""
    try:
        return asyncio.run(_migrate_user_cluster(options, kubeconfig=kubeconfig, context=context))
    except NotConfigured as error:
        report_error(str(error), fix=FIX)
        return USAGE_ERROR
    except CannotMigrate as error:
        report_error(str(error), fix=error.fix)
        return SOMETHING_LEFT
    except (KubeError, OSError) as error:
        report_error(str(error), fix="check the connection and your permissions, then run the same command again")
        return SOMETHING_LEFT


async def _migrate_user_cluster(options: Options, *, kubeconfig: Path | None, context: str | None) -> int:
    async with user_cluster(kubeconfig, context=context) as (api, _):
        if options.is_dry_run:
            return _print_plan((await read_plan(api, namespace=options.namespace)).actions)
        left = await migrate(api, namespace=options.namespace, must_wait=options.must_wait, report=_say)
    return _print_rest(left)


def _print_plan(actions: Sequence[Action]) -> int:
    _say("\n".join(lines(actions)) if actions else "nothing to migrate")
    if actions:
        _say("\nnothing was changed; inferrun migrate --apply does this")
    return DONE


def _print_rest(left: Sequence[Action]) -> int:
    if not left:
        _say("nothing is left to migrate")
        return DONE
    _say("\nleft as it is:\n" + "\n".join(lines(left)))
    is_complete = all(action.step is Step.LEAVE or action.kind == "Secret" for action in left)
    if not is_complete:
        _say("\nrun the same command again once these are resolved")
    return DONE if is_complete else SOMETHING_LEFT


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
