"""`inferrun doctor`: looks at a cluster and a Temporal server and tells what is wrong. It changes nothing.

`examine` asks through two seams and judges with pure functions; `run` is the composition root that builds the adapters.
"""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from inferrun.cli import temporal_server
from inferrun.cli.definitions import CURE as DEFINITIONS_CURE
from inferrun.cli.definitions import MODELS, judge_definition
from inferrun.cli.findings import Finding, exit_code, lines, ok, problem, summary, unknown
from inferrun.cli.permissions import (
    PERSON,
    SHIM,
    WORKER,
    Right,
    account_review,
    is_allowed,
    judge_account,
    judge_person,
    self_review,
)
from inferrun.cli.pollers import judge_queue
from inferrun.cli.programs import Installed, judge_programs, selector
from inferrun.cli.temporal_server import Connected, Refused, TemporalServer, Unreachable
from inferrun.control.run_defaults import Defaults, parse_defaults
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import Forbidden, KubeError, NotFound
from inferrun.kube.objects import CONFIG_MAPS, NAMESPACES, Object, Resource
from inferrun.submission import DEFAULT_TASK_QUEUE
from inferrun.temporal.connection import ATTRIBUTES

DEFINITIONS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
DEPLOYMENTS: Final = Resource("apps/v1", "deployments")
SELF_REVIEWS: Final = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews")
REVIEWS: Final = Resource("authorization.k8s.io/v1", "subjectaccessreviews")
SETTINGS: Final = "inferrun-config"

OLDEST_MINOR: Final = 33
"""Kubernetes 1.33: the Job's failure policies and the CRD rules that are used are stable from there on."""

USAGE_ERROR: Final = 2
TEMPORAL_CURE: Final = (
    "name the address as this machine reaches it: TEMPORAL_ADDRESS=HOST:PORT; a server inside the cluster is reached with\n"
    "kubectl -n TEMPORAL_NAMESPACE port-forward service/FRONTEND 7233 and TEMPORAL_ADDRESS=127.0.0.1:7233"
)


@dataclass(frozen=True)
class Question:
    """What to look at."""

    kubeconfig: Path | None
    context: str | None
    install_namespace: str
    release: str
    namespace: str


class Cluster(Protocol):
    """What the doctor asks of an API server; `KubeClient` answers it."""

    async def version(self) -> Object:
        """The server's version."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object."""

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        """A list object."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Ask with an access review, which stores nothing."""


Connect = Callable[[Installed], Awaitable[Connected]]
"""Connects to Temporal, given what the installation was told. Raises Unreachable."""


async def examine(question: Question, cluster: Cluster, connect_temporal: Connect) -> list[Finding]:
    """Everything that can be said; what cannot be seen is said to be unknown."""
    version = await _version(cluster)
    if version.cure:  # nothing else can be asked
        return [version]
    programs, installed = await _programs(question, cluster)
    return [
        version,
        *[await _definition(cluster, name) for name in MODELS],
        *programs,
        *await _settings(question, cluster),
        *await _rights(question, cluster, installed),
        *await _temporal(installed, await _installation(cluster, installed), question, connect_temporal),
    ]


async def _version(cluster: Cluster) -> Finding:
    try:
        answer = await cluster.version()
    except KubeError as error:
        return problem(
            "cluster", str(error), cure="name the right cluster: --kubeconfig FILE, --context NAME; kubectl version"
        )
    version = str(answer.get("gitVersion", ""))
    minor = re.match(r"\d+", str(answer.get("minor", "")))
    if answer.get("major") == "1" and minor is not None and int(minor[0]) < OLDEST_MINOR:
        return problem("cluster", f"it is Kubernetes {version}", cure=f"Kubernetes 1.{OLDEST_MINOR} or newer is needed")
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
    """Who may not read definitions can still see whether the resource is served."""
    what = f"definition {name}"
    plural, _, group = name.partition(".")
    try:
        await cluster.list(Resource(f"{group}/v1", plural), limit="1")
    except NotFound:
        return problem(what, "it is not installed", cure=DEFINITIONS_CURE)
    except KubeError:
        pass
    return unknown(what, "you may not read definitions, so it is not known whether it is current")


async def _programs(question: Question, cluster: Cluster) -> tuple[list[Finding], Installed]:
    namespace = question.install_namespace
    try:
        found = await cluster.list(DEPLOYMENTS, namespace, labelSelector=selector(question.release))
    except KubeError as error:
        return [unknown(f"Deployments in namespace {namespace}", str(error))], Installed(accounts={})
    deployments = found.get("items") or []
    return judge_programs(deployments, namespace=namespace, release=question.release), Installed.read(deployments)


async def _settings(question: Question, cluster: Cluster) -> list[Finding]:
    """Whether the operator's defaults are ones that the programs take."""
    what = f"settings (ConfigMap {question.install_namespace}/{SETTINGS})"
    try:
        stored = await cluster.get(CONFIG_MAPS, question.install_namespace, SETTINGS)
    except NotFound:
        return []  # said with the Deployments
    except KubeError as error:
        return [unknown(what, str(error))]
    _, problems = parse_defaults(stored.get("data") or {}, last=Defaults())
    cure = "helm upgrade with the right values, or kubectl edit; until then the last good value, or the default, acts"
    return [problem(what, text, cure=cure) for text in problems] or [ok(what, "all values are valid")]


async def _rights(question: Question, cluster: Cluster, installed: Installed) -> list[Finding]:
    findings = [await _person(question, cluster)]
    for component, rights in (("shim", SHIM), ("worker", WORKER)):
        if account := installed.accounts.get(component):
            findings.append(await _account(question, cluster, installed, account, rights))
    return findings


async def _person(question: Question, cluster: Cluster) -> Finding:
    namespace = question.namespace

    async def may(right: Right) -> bool:
        return is_allowed(await cluster.create(SELF_REVIEWS, None, self_review(right, namespace=namespace)))

    try:
        refused = [right for right in PERSON if not await may(right)]
    except KubeError as error:
        return unknown(f"your rights in namespace {namespace}", str(error))
    return judge_person(refused, namespace=namespace)


async def _account(
    question: Question, cluster: Cluster, installed: Installed, account: str, rights: tuple[Right, ...]
) -> Finding:
    watched = installed.watch_namespace
    where = f"namespace {watched}" if watched else "all namespaces"

    async def may(right: Right) -> bool:
        review = account_review(right, namespace=watched, account=account, account_namespace=question.install_namespace)
        return is_allowed(await cluster.create(REVIEWS, None, review))

    try:
        refused = [right for right in rights if not await may(right)]
    except Forbidden:
        return unknown(f"rights of service account {account} in {where}", "only administrators may ask for them")
    except KubeError as error:
        return unknown(f"rights of service account {account} in {where}", str(error))
    return judge_account(account, refused, where=where)


async def _installation(cluster: Cluster, installed: Installed) -> str:
    """The id that workers of this installation carry; empty where it cannot be known."""
    if not installed.release:
        return ""
    try:
        system = await cluster.get(NAMESPACES, None, "kube-system")
    except KubeError:
        return ""
    return f"{installed.release}.{system['metadata']['uid']}"


async def _temporal(
    installed: Installed, installation: str, question: Question, connect_temporal: Connect
) -> list[Finding]:
    try:
        connected = await connect_temporal(installed)
    except Unreachable as error:
        return [problem("Temporal", f"no server answers at {error}", cure=TEMPORAL_CURE)]
    server, namespace = connected.server, connected.namespace
    findings = [ok("Temporal", f"it answers at {connected.address}")]
    try:
        if not await server.has_namespace():
            cure = f"temporal operator namespace create -n {namespace}, or name another: TEMPORAL_NAMESPACE"
            return [*findings, problem("Temporal namespace", f"there is no namespace {namespace}", cure=cure)]
        findings.append(ok("Temporal namespace", namespace))
    except (Unreachable, Refused) as error:
        findings.append(unknown("Temporal namespace", str(error)))
    findings.append(await _search_attributes(server, namespace))
    return [*findings, *await _queues(server, installed, installation, question)]


async def _search_attributes(server: TemporalServer, namespace: str) -> Finding:
    what = "search attributes"
    try:
        found = await server.search_attributes()
    except (Unreachable, Refused) as error:
        return unknown(what, f"they cannot be listed: {error}")
    return judge_search_attributes(found, namespace=namespace)


def judge_search_attributes(found: Mapping[str, str], *, namespace: str) -> Finding:
    """The finding on the search attributes by which runs are found in the Temporal UI."""
    wrong = [key.name for key in ATTRIBUTES if found.get(key.name, "Keyword") != "Keyword"]
    missing = [key.name for key in ATTRIBUTES if key.name not in found]
    if wrong:
        cure = (
            f"remove or rename them in the Temporal namespace {namespace}; the worker registers its own when it starts"
        )
        return problem("search attributes", f"of another type than Keyword: {', '.join(wrong)}", cure=cure)
    if missing:
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        cure = f"temporal operator search-attribute create -n {namespace} {flags}; then restart shim and worker"
        return problem("search attributes", f"not registered: {', '.join(missing)}", cure=cure)
    return ok("search attributes", "all are registered")


async def _queues(server: TemporalServer, installed: Installed, installation: str, question: Question) -> list[Finding]:
    queue = os.environ.get("INFERRUN_TASK_QUEUE") or installed.task_queue or DEFAULT_TASK_QUEUE
    restart = (
        f"kubectl -n {question.install_namespace} rollout restart deployment -l app.kubernetes.io/component=worker"
    )
    findings = []
    for name, kind in ((queue, "workflows"), (queue, "activities"), (f"{queue}-follow", "activities")):
        try:
            pollers = await server.pollers(name, kind)
        except (Unreachable, Refused) as error:
            findings.append(unknown(f"pollers of task queue {name} ({kind})", str(error)))
            continue
        findings.append(judge_queue(name, kind, pollers, installation=installation, restart=restart))
    return findings


def run(question: Question) -> int:
    """Examine and print; the exit code."""
    kubeconfig = find_kubeconfig(question.kubeconfig, environment=os.environ, home=Path.home())
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        sys.stderr.write(f"error: no cluster is named\ncure:  {KUBECONFIG_CURE}\n")
        return USAGE_ERROR
    if kubeconfig is not None and not any(Path(part).is_file() for part in str(kubeconfig).split(os.pathsep)):
        sys.stderr.write(f"error: there is no file {kubeconfig}\ncure:  {KUBECONFIG_CURE}\n")
        return USAGE_ERROR
    try:
        findings = asyncio.run(_examine_real(question, kubeconfig))
    except (KubeError, OSError) as error:
        sys.stderr.write(f"error: {error}\ncure:  {KUBECONFIG_CURE}\n")
        return USAGE_ERROR
    print(f"kubeconfig {kubeconfig}" if kubeconfig else "the cluster that this Pod runs in")
    print("\n".join(lines(findings)))
    print(summary(findings))
    return exit_code(findings)


KUBECONFIG_CURE: Final = "name it as for kubectl: --kubeconfig FILE, KUBECONFIG or ~/.kube/config, and --context NAME"


def find_kubeconfig(named: Path | None, *, environment: Mapping[str, str], home: Path) -> Path | None:
    """The kubeconfig by kubectl's rules; None where there is none. KUBECONFIG may be a list of files."""
    if named is not None:
        return named
    if environment.get("KUBECONFIG"):
        return Path(environment["KUBECONFIG"])
    usual = home / ".kube" / "config"
    return usual if usual.exists() else None


async def _examine_real(question: Question, kubeconfig: Path | None) -> list[Finding]:
    api: KubeClient = await connect(kubeconfig=kubeconfig, context=question.context)
    try:
        return await examine(question, api, _connect_temporal)
    finally:
        await api.close()


async def _connect_temporal(installed: Installed) -> Connected:
    return await temporal_server.connect(
        address=installed.temporal_address or "127.0.0.1:7233", namespace=installed.temporal_namespace
    )
