"""`inferrun doctor`: diagnoses an installation in a cluster and its Temporal server. It changes
nothing.

`examine` queries the servers and evaluates the responses with pure functions; `diagnose` prints
what it finds.
"""

import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from inferrun.cli import temporal_server
from inferrun.cli.definitions import FIX as DEFINITIONS_FIX
from inferrun.cli.definitions import MODELS, judge_definition
from inferrun.cli.findings import Finding, exit_code, lines, ok, problem, summary, unknown
from inferrun.cli.permissions import AT_HOME, PERSON, SHIM, WORKER, access_review, judge_permissions
from inferrun.cli.programs import COMPONENTS, SHIMS, Installed, judge_program, judge_queue
from inferrun.cli.temporal_server import TemporalServer
from inferrun.installation import join_id, recorded_cluster
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, KubeError, NotFound
from inferrun.kube.namespaces import SERVED_TWICE_FIX
from inferrun.kube.objects import CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, Resource
from inferrun.run_defaults import Defaults, parse_defaults
from inferrun.submission import DEFAULT_TASK_QUEUE
from inferrun.temporal.connection import ATTRIBUTES, TemporalUnavailable

SELF_REVIEWS: Final = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews")
REVIEWS: Final = Resource("authorization.k8s.io/v1", "subjectaccessreviews")
SETTINGS: Final = "inferrun-config"

OLDEST_MINOR: Final = 33
"""Kubernetes 1.33: success policies and limits of retries per index of Jobs are stable since that
version, and so is that an update of an object is validated only where it changes."""

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


Connect = Callable[[Installed], Awaitable[TemporalServer]]
"""Connects to Temporal with the settings of the installation. Raises TemporalUnavailable."""


async def examine(
    question: Question, cluster: KubeClient, connect_temporal: Connect
) -> list[Finding]:
    """All findings; checks that are not possible are reported as unknown."""
    version = await _version(cluster)
    if version.fix:  # nothing else can be checked
        return [version]
    definitions = [await _definition(cluster, name) for name in MODELS]
    namespace = question.install_namespace
    release = question.release
    installed = Installed(accounts={})
    try:
        selector = f"app.kubernetes.io/name=inferrun,app.kubernetes.io/instance={release}"
        deployments = (await cluster.list(DEPLOYMENTS, namespace, labelSelector=selector)).get(
            "items"
        ) or []
        programs = [
            judge_program(one, deployments, namespace=namespace, release=release)
            for one in COMPONENTS
        ]
        installed = Installed.read(deployments)
    except KubeError as error:
        programs = [unknown(f"Deployments in namespace {namespace}", str(error))]
    settings = f"settings (ConfigMap {namespace}/{SETTINGS})"
    others = "other installations in the same namespaces"
    return [
        version,
        *definitions,
        *programs,
        *await _tried(settings, _settings(settings, question, cluster)),
        *await _permissions(question, cluster, installed),
        *await _tried(others, _other_installations(question, cluster, installed)),
        *await _temporal(
            installed, await _installation(cluster, installed, question), question, connect_temporal
        ),
    ]


async def _tried(what: str, check: Awaitable[list[Finding]]) -> list[Finding]:
    """The findings of a check; unknown if it cannot be made."""
    try:
        return await check
    except (KubeError, TemporalUnavailable) as error:
        return [unknown(what, str(error))]


async def _version(cluster: KubeClient) -> Finding:
    try:
        answer = await cluster.version()
    except KubeError as error:
        fix = "select the right cluster with --kubeconfig FILE and --context NAME; test: kubectl version"
        return problem("cluster", str(error), fix=fix)
    version = str(answer.get("gitVersion", ""))
    minor = re.match(r"\d+", str(answer.get("minor", "")))
    if answer.get("major") == "1" and minor is not None and int(minor[0]) < OLDEST_MINOR:
        fix = f"upgrade to Kubernetes 1.{OLDEST_MINOR} or newer"
        return problem("cluster", f"Kubernetes {version} is too old", fix=fix)
    return ok("cluster", f"Kubernetes {version}")


async def _definition(cluster: KubeClient, name: str) -> Finding:
    what = f"definition {name}"
    try:
        return judge_definition(name, await cluster.find(DEFINITIONS, None, name))
    except Forbidden:
        plural, _, group = name.partition(".")
        with suppress(KubeError):
            try:  # whether the resource is served can be checked at least
                await cluster.list(Resource(f"{group}/v1", plural), limit="1")
            except NotFound:
                return problem(what, "it is not installed", fix=DEFINITIONS_FIX)
        return unknown(
            what, "you are not allowed to read definitions, so its version cannot be checked"
        )
    except KubeError as error:
        return unknown(what, str(error))


async def _settings(what: str, question: Question, cluster: KubeClient) -> list[Finding]:
    stored = await cluster.find(CONFIG_MAPS, question.install_namespace, SETTINGS)
    if stored is None:
        return []  # reported with the Deployments
    _, problems = parse_defaults(stored.get("data") or {}, last=Defaults())
    fix = "helm upgrade with a valid value; until then the last valid value or the default is used"
    return [problem(what, text, fix=fix) for text in problems] or [ok(what, "all values are valid")]


async def _permissions(
    question: Question, cluster: KubeClient, installed: Installed
) -> list[Finding]:
    """The findings about the user, and about the service accounts in each namespace; empty means
    all namespaces."""
    home = question.install_namespace
    shim = installed.accounts.get("shim")
    worker = installed.accounts.get("worker")
    findings = []
    for account, permissions, place in [
        ("", PERSON, question.namespace),
        *(
            (account, table, place)
            for place in installed.watched
            for account, table in ((shim, SHIM), (worker, WORKER))
        ),
        *((account, AT_HOME, home) for account in (shim, worker)),
    ]:
        if account is None:
            continue
        where = f"namespace {place}" if place else "all namespaces"
        what = (
            f"permissions of service account {account} in {where}"
            if account
            else f"your permissions in {where}"
        )
        denied = []
        try:
            for one in permissions:
                review = access_review(
                    one, namespace=place, account=account, account_namespace=home
                )
                answer = await cluster.create(REVIEWS if account else SELF_REVIEWS, None, review)
                if not answer.get("status", {}).get("allowed"):
                    denied.append(one)
        except KubeError as error:
            is_reserved = bool(account) and isinstance(error, Forbidden)
            findings.append(
                unknown(what, "only administrators may check them" if is_reserved else str(error))
            )
        else:
            findings.append(judge_permissions(what, denied, namespace="" if account else place))
    return findings


async def _installation(cluster: KubeClient, installed: Installed, question: Question) -> str:
    """The id of this installation, which its workers carry; empty if unknown."""
    known = ""
    with suppress(KubeError):
        known = (
            await recorded_cluster(cluster, question.install_namespace) if installed.release else ""
        )
    return join_id(release=installed.release, cluster=known) if known else ""


async def _other_installations(
    question: Question, cluster: KubeClient, installed: Installed
) -> list[Finding]:
    shims = (await cluster.list(DEPLOYMENTS, labelSelector=SHIMS)).get("items") or []
    own, found = (question.install_namespace, question.release), []
    for shim in shims:
        metadata = shim["metadata"]
        other = (
            metadata["namespace"],
            (metadata.get("labels") or {}).get("app.kubernetes.io/instance", ""),
        )
        both, places = set(installed.watched), set(Installed.read([shim]).watched)
        shared = both & places if "" not in both | places else both if "" in places else places
        if other != own and shared:
            what = (
                f"namespaces {', '.join(sorted(shared))}" if "" not in shared else "all namespaces"
            )
            detail = (
                f"served by another installation, too: release {other[1]} in namespace {other[0]}"
            )
            found.append(problem(what, detail, fix=SERVED_TWICE_FIX))
    return found


async def _temporal(
    installed: Installed, installation: str, question: Question, connect_temporal: Connect
) -> list[Finding]:
    try:
        server = await connect_temporal(installed)
    except TemporalUnavailable as error:
        return [problem("Temporal", f"no response from {error}", fix=TEMPORAL_FIX)]
    namespace = server.namespace
    queue = os.environ.get("INFERRUN_TASK_QUEUE") or installed.task_queue or DEFAULT_TASK_QUEUE
    restart = f"kubectl -n {question.install_namespace} rollout restart deployment -l app.kubernetes.io/component=worker"

    async def find_pollers(kind: str) -> list[Finding]:
        pollers = await server.pollers(queue, kind)
        return [judge_queue(queue, kind, pollers, installation=installation, restart=restart)]

    found = [ok("Temporal", f"connected to {server.address}")]
    try:
        if not await server.has_namespace():
            fix = f"temporal operator namespace create -n {namespace}, or set TEMPORAL_NAMESPACE"
            return [
                *found,
                problem("Temporal namespace", f"namespace {namespace} does not exist", fix=fix),
            ]
        found.append(ok("Temporal namespace", namespace))
    except TemporalUnavailable as error:
        found.append(unknown("Temporal namespace", str(error)))
    found += await _tried("search attributes", _search_attributes(server))
    for kind in ("workflows", "activities"):
        found += await _tried(f"pollers of task queue {queue} ({kind})", find_pollers(kind))
    return found


async def _search_attributes(server: TemporalServer) -> list[Finding]:
    found = await server.search_attributes()
    wrong = [key.name for key in ATTRIBUTES if found.get(key.name, "Keyword") != "Keyword"]
    missing = [key.name for key in ATTRIBUTES if key.name not in found]
    if wrong:
        fix = f"remove or rename them in Temporal namespace {server.namespace}; the shim registers its own on startup"
        return [problem("search attributes", f"not of type Keyword: {', '.join(wrong)}", fix=fix)]
    if missing:
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        fix = f"temporal operator search-attribute create -n {server.namespace} {flags}; then restart the shim"
        return [problem("search attributes", f"not registered: {', '.join(missing)}", fix=fix)]
    return [ok("search attributes", "registered")]


async def diagnose(question: Question, api: KubeClient, *, source: str) -> int:
    """Examine a cluster and print the findings; returns the exit code."""

    async def connect(installed: Installed) -> TemporalServer:
        address = installed.temporal_address or "127.0.0.1:7233"
        return await temporal_server.connect(
            address=address, namespace=installed.temporal_namespace
        )

    findings = await examine(question, api, connect)
    print(source, *lines(findings), summary(findings), sep="\n")
    return exit_code(findings)
