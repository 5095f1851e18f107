"""The Deployments of shim and worker: whether they are ready, and what they were told. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from inferrun.cli.findings import Finding, ok, problem
from inferrun.kube.objects import Object

COMPONENTS: Final = ("shim", "worker")
COMPONENT_LABEL: Final = "app.kubernetes.io/component"


def selector(release: str) -> str:
    """The label selector of a release's Deployments."""
    return f"app.kubernetes.io/name=inferrun,app.kubernetes.io/instance={release}"


@dataclass(frozen=True)
class Installed:
    """What the programs of an installation were told; empty texts where nothing is installed."""

    accounts: dict[str, str]
    """Service account by component."""
    watch_namespace: str = ""
    task_queue: str = ""
    release: str = ""
    temporal_address: str = ""
    temporal_namespace: str = ""

    @classmethod
    def read(cls, deployments: Iterable[Object]) -> Self:
        """From the Deployments, of which the worker's is asked last."""
        environment: dict[str, str] = {}
        accounts = {}
        for deployment in sorted(deployments, key=_component_of):
            pod = deployment["spec"]["template"]["spec"]
            accounts[_component_of(deployment)] = str(pod.get("serviceAccountName", "default"))
            for entry in pod["containers"][0].get("env") or []:
                environment[entry["name"]] = entry.get("value", "")
        return cls(
            accounts=accounts,
            watch_namespace=environment.get("WATCH_NAMESPACE", ""),
            task_queue=environment.get("INFERRUN_TASK_QUEUE", ""),
            release=environment.get("INFERRUN_RELEASE", ""),
            temporal_address=environment.get("TEMPORAL_ADDRESS", ""),
            temporal_namespace=environment.get("TEMPORAL_NAMESPACE", ""),
        )


def judge_programs(deployments: list[Object], *, namespace: str, release: str) -> list[Finding]:
    """One finding for each of the two programs."""
    by_component = {_component_of(item): item for item in deployments}
    return [_judge(name, by_component.get(name), namespace=namespace, release=release) for name in COMPONENTS]


def _judge(component: str, deployment: Object | None, *, namespace: str, release: str) -> Finding:
    if deployment is None:
        cure = (
            f"helm install {release} deploy/helm/inferrun -n {namespace} --create-namespace --set temporal.address=HOST:PORT\n"
            "or say where it is: --install-namespace NAME --release NAME (helm list -A lists them)"
        )
        text = f"there is no Deployment of it in namespace {namespace} (release {release})"
        return problem(component, text, cure=cure)
    name = deployment["metadata"]["name"]
    what = f"{component} (Deployment {namespace}/{name})"
    wanted = deployment["spec"].get("replicas", 1)
    ready = deployment.get("status", {}).get("readyReplicas") or 0
    if wanted == 0:
        return problem(what, "it is scaled to 0", cure=f"kubectl -n {namespace} scale deployment/{name} --replicas=1")
    if ready < wanted:
        cure = (
            f"kubectl -n {namespace} logs deployment/{name} says why; where there is no log:\n"
            f"kubectl -n {namespace} describe pods -l {COMPONENT_LABEL}={component}"
        )
        return problem(what, f"{ready} of {wanted} Pods are ready{_why(deployment)}", cure=cure)
    return ok(what, f"{ready} of {wanted} Pods are ready")


def _component_of(deployment: Object) -> str:
    return str((deployment["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def _why(deployment: Object) -> str:
    conditions = deployment.get("status", {}).get("conditions") or []
    wrong = [item for item in conditions if item.get("type") == "ReplicaFailure" and item.get("status") == "True"]
    return f": {wrong[0].get('message', '')}" if wrong else ""
