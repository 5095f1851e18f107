"""Checks the Deployments of shim and worker, and reads their settings. Pure."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from inferrun.cli.findings import Finding, ok, problem
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object

COMPONENTS: Final = ("shim", "worker")
COMPONENT_LABEL: Final = "app.kubernetes.io/component"


SHIMS: Final = f"app.kubernetes.io/name=inferrun,{COMPONENT_LABEL}=shim"
"""The label selector of the shims of all releases."""


def selector(release: str) -> str:
    """The label selector of a release's Deployments."""
    return f"app.kubernetes.io/name=inferrun,app.kubernetes.io/instance={release}"


@dataclass(frozen=True)
class Installed:
    """The settings of an installation's programs; empty if it is not installed."""

    accounts: dict[str, str]
    """Service account by component."""
    watched: tuple[str, ...] = ("",)
    """The watched namespaces; one empty name: all."""
    task_queue: str = ""
    release: str = ""
    temporal_address: str = ""
    temporal_namespace: str = ""

    @classmethod
    def read(cls, deployments: Iterable[Object]) -> Self:
        """The settings in the Deployments; those of the worker take precedence."""
        environment: dict[str, str] = {}
        accounts = {}
        for deployment in sorted(deployments, key=_component_of):
            pod = deployment["spec"]["template"]["spec"]
            accounts[_component_of(deployment)] = str(pod.get("serviceAccountName", "default"))
            for entry in pod["containers"][0].get("env") or []:
                environment[entry["name"]] = entry.get("value", "")
        watched: tuple[str, ...] = ()
        with suppress(ValueError):  # the programs reject it and do not start, which is reported
            watched = Namespaces.parse(environment.get("WATCH_NAMESPACE", "")).names
        return cls(
            accounts=accounts,
            watched=watched or ("",),
            task_queue=environment.get("INFERRUN_TASK_QUEUE", ""),
            release=environment.get("INFERRUN_RELEASE", ""),
            temporal_address=environment.get("TEMPORAL_ADDRESS", ""),
            temporal_namespace=environment.get("TEMPORAL_NAMESPACE", ""),
        )


def judge_programs(deployments: list[Object], *, namespace: str, release: str) -> list[Finding]:
    """One finding per program."""
    by_component = {_component_of(item): item for item in deployments}
    return [_judge(name, by_component.get(name), namespace=namespace, release=release) for name in COMPONENTS]


def _judge(component: str, deployment: Object | None, *, namespace: str, release: str) -> Finding:
    if deployment is None:
        fix = (
            f"helm install {release} deploy/helm/inferrun -n {namespace} --create-namespace --set temporal.address=HOST:PORT\n"
            "or select an existing installation: --install-namespace NAMESPACE --release NAME (see helm list -A)"
        )
        text = f"no Deployment in namespace {namespace} (release {release})"
        return problem(component, text, fix=fix)
    name = deployment["metadata"]["name"]
    what = f"{component} (Deployment {namespace}/{name})"
    wanted = deployment["spec"].get("replicas", 1)
    ready = deployment.get("status", {}).get("readyReplicas") or 0
    if wanted == 0:
        return problem(what, "it is scaled to 0", fix=f"kubectl -n {namespace} scale deployment/{name} --replicas=1")
    if ready < wanted:
        fix = (
            f"read the log: kubectl -n {namespace} logs deployment/{name}; if there is none:\n"
            f"kubectl -n {namespace} describe pods -l {COMPONENT_LABEL}={component}"
        )
        conditions = deployment.get("status", {}).get("conditions") or []
        failures = (one for one in conditions if one.get("type") == "ReplicaFailure" and one.get("status") == "True")
        why = next((f": {one.get('message', '')}" for one in failures), "")
        return problem(what, f"{ready} of {wanted} Pods are ready{why}", fix=fix)
    return ok(what, f"{ready} of {wanted} Pods are ready")


def _component_of(deployment: Object) -> str:
    return str((deployment["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))
