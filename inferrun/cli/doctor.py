"""`inferrun doctor`: diagnoses an installation in a cluster and its Temporal server. It changes nothing.

`examine` queries through two seams and evaluates the responses with pure functions; `run` connects to the real servers.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from inferrun.cli import temporal_server
from inferrun.cli.definitions import FIX as DEFINITIONS_FIX
from inferrun.cli.definitions import MODELS, judge_definition
from inferrun.cli.findings import Finding, exit_code, lines, ok, problem, summary, unknown
from inferrun.cli.kubeconfig import FIX as KUBECONFIG_FIX
from inferrun.cli.kubeconfig import report_error, user_cluster
from inferrun.cli.permissions import (
    PERSON,
    SHIM,
    SHIM_AT_HOME,
    WORKER,
    WORKER_AT_HOME,
    Permission,
    account_review,
    is_allowed,
    judge_account,
    judge_person,
    self_review,
)
from inferrun.cli.pollers import judge_queue
from inferrun.cli.programs import Installed, judge_programs, selector
from inferrun.cli.temporal_server import Connected, Denied, TemporalServer, Unreachable
from inferrun.control.installation import join_id, recorded_cluster
from inferrun.control.run_defaults import Defaults, parse_defaults
from inferrun.kube.claims import CLUSTER_PLACE, Claim
from inferrun.kube.claims import FIX as SERVED_TWICE_FIX
from inferrun.kube.claims import NAME as CLAIM
from inferrun.kube.errors import Forbidden, KubeError, NotFound
from inferrun.kube.objects import CONFIG_MAPS, LEASES, Object, Resource
from inferrun.submission import DEFAULT_TASK_QUEUE
from inferrun.temporal.connection import ATTRIBUTES
from inferrun.timestamps import utc_now

DEFINITIONS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
DEPLOYMENTS: Final = Resource("apps/v1", "deployments")
SELF_REVIEWS: Final = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews")
REVIEWS: Final = Resource("authorization.k8s.io/v1", "subjectaccessreviews")
SETTINGS: Final = "inferrun-config"

OLDEST_MINOR: Final = 33
"""Kubernetes 1.33: the Job failure policies and CRD rules in use are stable since that version."""

CLAIM_SECONDS: Final = 60.0
"""A claim that was renewed longer ago is dead; the clock of this machine may differ from that of the cluster."""

USAGE_ERROR: Final = 2
TEMPORAL_FIX: Final = (
    "set TEMPORAL_ADDRESS=HOST:PORT to an address that is reachable from this machine; for a server in the cluster, use\n"
    "kubectl -n TEMPORAL_NAMESPACE port-forward service/FRONTEND 7233 and TEMPORAL_ADDRESS=127.0.0.1:7233"
)


@dataclass(frozen=True)
class Question:
    """The installation to examine, and the namespace in which the user wants to start runs."""

    install_namespace: str
    release: str
    namespace: str


class Cluster(Protocol):
    """The requests that doctor needs; `KubeClient` implements them."""

    async def version(self) -> Object:
        """The server's version."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object."""

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        """A list object."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Create an access review, which is not stored."""


Connect = Callable[[Installed], Awaitable[Connected]]
"""Connects to Temporal with the settings of the installation. Raises Unreachable."""


async def examine(question: Question, cluster: Cluster, connect_temporal: Connect) -> list[Finding]:
    """All findings; checks that are not possible are reported as unknown."""
    version = await _version(cluster)
    if version.fix:  # nothing else can be checked
        return [version]
    programs, installed = await _programs(question, cluster)
    installation = await _installation(cluster, installed, question)
    return [
        version,
        *[await _definition(cluster, name) for name in MODELS],
        *programs,
        *await _settings(question, cluster),
        *await _permissions(question, cluster, installed),
        *await _claims(cluster, installed, installation),
        *await _temporal(installed, installation, question, connect_temporal),
    ]


async def _version(cluster: Cluster) -> Finding:
    try:
        answer = await cluster.version()
    except KubeError as error:
        return problem(
            "cluster",
            str(error),
            fix="select the right cluster with --kubeconfig FILE and --context NAME; test: kubectl version",
        )
    version = str(answer.get("gitVersion", ""))
    minor = re.match(r"\d+", str(answer.get("minor", "")))
    if answer.get("major") == "1" and minor is not None and int(minor[0]) < OLDEST_MINOR:
        return problem(
            "cluster", f"Kubernetes {version} is too old", fix=f"upgrade to Kubernetes 1.{OLDEST_MINOR} or newer"
        )
    return ok("cluster", f"Kubernetes {version}")


async def _definition(cluster: Cluster, name: str) -> Finding:
    try:
        stored: Object | None = await cluster.get(DEFINITIONS, None, name)
    except NotFound:
        stored = None
    except Forbidden:
        return await _definition_in_use(cluster, name)
    except KubeError as error:
        return unknown(f"definition {name}", str(error))
    return judge_definition(name, stored)


async def _definition_in_use(cluster: Cluster, name: str) -> Finding:
    """Without permission to read definitions, check at least whether the resource is served."""
    what = f"definition {name}"
    plural, _, group = name.partition(".")
    try:
        await cluster.list(Resource(f"{group}/v1", plural), limit="1")
    except NotFound:
        return problem(what, "it is not installed", fix=DEFINITIONS_FIX)
    except KubeError:
        pass
    return unknown(what, "you are not allowed to read definitions, so its version cannot be checked")


async def _programs(question: Question, cluster: Cluster) -> tuple[list[Finding], Installed]:
    namespace = question.install_namespace
    try:
        found = await cluster.list(DEPLOYMENTS, namespace, labelSelector=selector(question.release))
    except KubeError as error:
        return [unknown(f"Deployments in namespace {namespace}", str(error))], Installed(accounts={})
    deployments = found.get("items") or []
    return judge_programs(deployments, namespace=namespace, release=question.release), Installed.read(deployments)


async def _settings(question: Question, cluster: Cluster) -> list[Finding]:
    """Whether the operator's defaults are valid."""
    what = f"settings (ConfigMap {question.install_namespace}/{SETTINGS})"
    try:
        stored = await cluster.get(CONFIG_MAPS, question.install_namespace, SETTINGS)
    except NotFound:
        return []  # reported with the Deployments
    except KubeError as error:
        return [unknown(what, str(error))]
    _, problems = parse_defaults(stored.get("data") or {}, last=Defaults())
    fix = "helm upgrade with a valid value; until then the last valid value or the default is used"
    return [problem(what, text, fix=fix) for text in problems] or [ok(what, "all values are valid")]


_TABLES: Final = (("shim", SHIM), ("worker", WORKER))


async def _permissions(question: Question, cluster: Cluster, installed: Installed) -> list[Finding]:
    findings = [await _person(question, cluster)]
    home = question.install_namespace
    places = [
        *((component, table, place) for place in installed.watched for component, table in _TABLES),
        ("shim", SHIM_AT_HOME, home),
        ("worker", WORKER_AT_HOME, home),
    ]
    for component, permissions, place in places:
        if account := installed.accounts.get(component):
            findings.append(await _account(question, cluster, account, permissions, place=place))
    return findings


async def _person(question: Question, cluster: Cluster) -> Finding:
    namespace = question.namespace

    async def may(permission: Permission) -> bool:
        return is_allowed(await cluster.create(SELF_REVIEWS, None, self_review(permission, namespace=namespace)))

    try:
        denied = [permission for permission in PERSON if not await may(permission)]
    except KubeError as error:
        return unknown(f"your permissions in namespace {namespace}", str(error))
    return judge_person(denied, namespace=namespace)


async def _account(
    question: Question, cluster: Cluster, account: str, permissions: tuple[Permission, ...], *, place: str
) -> Finding:
    """The finding about a program's service account in a namespace; empty means all namespaces."""
    where = f"namespace {place}" if place else "all namespaces"

    async def may(permission: Permission) -> bool:
        review = account_review(
            permission, namespace=place, account=account, account_namespace=question.install_namespace
        )
        return is_allowed(await cluster.create(REVIEWS, None, review))

    try:
        denied = [permission for permission in permissions if not await may(permission)]
    except Forbidden:
        return unknown(f"permissions of service account {account} in {where}", "only administrators may check them")
    except KubeError as error:
        return unknown(f"permissions of service account {account} in {where}", str(error))
    return judge_account(account, denied, where=where)


async def _installation(cluster: Cluster, installed: Installed, question: Question) -> str:
    """The id of this installation, which its workers carry; empty if unknown."""
    if not installed.release:
        return ""
    try:
        known = installed.cluster_id or await recorded_cluster(cluster, question.install_namespace)
    except KubeError:
        return ""
    return join_id(release=installed.release, cluster=known) if known else ""


async def _claims(cluster: Cluster, installed: Installed, installation: str) -> list[Finding]:
    """The namespaces that another installation serves instead of this one."""
    found = []
    for place in installed.watched if installation else ():
        try:
            claim = Claim.of(await cluster.get(LEASES, place or CLUSTER_PLACE, CLAIM))
        except KubeError:
            continue  # nobody claims it, or the user may not see that
        if claim.holder in ("", installation) or claim.is_older_than(CLAIM_SECONDS, today=utc_now()):
            continue
        what = f"namespace {place}" if place else "all namespaces"
        found.append(problem(what, f"served by another installation: {claim.holder}", fix=SERVED_TWICE_FIX))
    return found


async def _temporal(
    installed: Installed, installation: str, question: Question, connect_temporal: Connect
) -> list[Finding]:
    try:
        connected = await connect_temporal(installed)
    except Unreachable as error:
        return [problem("Temporal", f"no response from {error}", fix=TEMPORAL_FIX)]
    server, namespace = connected.server, connected.namespace
    findings = [ok("Temporal", f"connected to {connected.address}")]
    try:
        if not await server.has_namespace():
            fix = f"temporal operator namespace create -n {namespace}, or set TEMPORAL_NAMESPACE"
            return [*findings, problem("Temporal namespace", f"namespace {namespace} does not exist", fix=fix)]
        findings.append(ok("Temporal namespace", namespace))
    except (Unreachable, Denied) as error:
        findings.append(unknown("Temporal namespace", str(error)))
    findings.append(await _search_attributes(server, namespace))
    return [*findings, *await _queues(server, installed, installation, question)]


async def _search_attributes(server: TemporalServer, namespace: str) -> Finding:
    what = "search attributes"
    try:
        found = await server.search_attributes()
    except (Unreachable, Denied) as error:
        return unknown(what, f"cannot be listed: {error}")
    return judge_search_attributes(found, namespace=namespace)


def judge_search_attributes(found: Mapping[str, str], *, namespace: str) -> Finding:
    """The finding about the search attributes, which are used to find runs in the Temporal UI."""
    wrong = [key.name for key in ATTRIBUTES if found.get(key.name, "Keyword") != "Keyword"]
    missing = [key.name for key in ATTRIBUTES if key.name not in found]
    if wrong:
        fix = f"remove or rename them in Temporal namespace {namespace}; the worker registers its own on startup"
        return problem("search attributes", f"not of type Keyword: {', '.join(wrong)}", fix=fix)
    if missing:
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        fix = f"temporal operator search-attribute create -n {namespace} {flags}; then restart shim and worker"
        return problem("search attributes", f"not registered: {', '.join(missing)}", fix=fix)
    return ok("search attributes", "registered")


async def _queues(server: TemporalServer, installed: Installed, installation: str, question: Question) -> list[Finding]:
    queue = os.environ.get("INFERRUN_TASK_QUEUE") or installed.task_queue or DEFAULT_TASK_QUEUE
    restart = (
        f"kubectl -n {question.install_namespace} rollout restart deployment -l app.kubernetes.io/component=worker"
    )
    findings = []
    for name, kind in ((queue, "workflows"), (queue, "activities"), (f"{queue}-follow", "activities")):
        try:
            pollers = await server.pollers(name, kind)
        except (Unreachable, Denied) as error:
            findings.append(unknown(f"pollers of task queue {name} ({kind})", str(error)))
            continue
        findings.append(judge_queue(name, kind, pollers, installation=installation, restart=restart))
    return findings


def run(question: Question, *, kubeconfig: Path | None, context: str | None) -> int:
    """Examine the user's cluster and print the findings; returns the exit code."""
    try:
        source, findings = asyncio.run(_examine_user_cluster(question, kubeconfig=kubeconfig, context=context))
    except (KubeError, OSError) as error:
        report_error(str(error), fix=KUBECONFIG_FIX)
        return USAGE_ERROR
    print(source)
    print("\n".join(lines(findings)))
    print(summary(findings))
    return exit_code(findings)


async def _examine_user_cluster(
    question: Question, *, kubeconfig: Path | None, context: str | None
) -> tuple[str, list[Finding]]:
    async with user_cluster(kubeconfig, context=context) as (api, source):
        return source, await examine(question, api, _connect_temporal)


async def _connect_temporal(installed: Installed) -> Connected:
    return await temporal_server.connect(
        address=installed.temporal_address or "127.0.0.1:7233", namespace=installed.temporal_namespace
    )
