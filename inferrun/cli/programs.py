"""Checks the Deployments of shim and worker and which workers poll a task queue, and reads their
settings. Pure."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from inferrun.cli.findings import Finding, ok, problem
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, condition_of, status_of

COMPONENTS: Final = ("shim", "worker")
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
SHIMS: Final = f"app.kubernetes.io/name=inferrun,{COMPONENT_LABEL}=shim"
"""The label selector of the shims of all releases."""


STALE_SECONDS: Final = 120
"""Age at which a poller counts as gone: a poll takes at most one minute, and Temporal lists pollers
for five."""


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


def judge_program(
    component: str, deployments: list[Object], *, namespace: str, release: str
) -> Finding:
    """The finding about a program."""
    deployment = next((item for item in deployments if _component_of(item) == component), None)
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
    ready = status_of(deployment).get("readyReplicas") or 0
    if wanted == 0:
        return problem(
            what,
            "it is scaled to 0",
            fix=f"kubectl -n {namespace} scale deployment/{name} --replicas=1",
        )
    if ready < wanted:
        fix = (
            f"read the log: kubectl -n {namespace} logs deployment/{name} --all-pods; if there is none:\n"
            f"kubectl -n {namespace} describe pods -l {COMPONENT_LABEL}={component}"
        )
        failure = condition_of(deployment, "ReplicaFailure")
        why = f": {failure.get('message', '')}" if failure is not None else ""
        return problem(what, f"{ready} of {wanted} Pods are ready{why}", fix=fix)
    return ok(what, f"{ready} of {wanted} Pods are ready")


def _component_of(deployment: Object) -> str:
    return str((deployment["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


@dataclass(frozen=True)
class Poller:
    """A worker that polled a queue: its identity, and the time since its last poll."""

    identity: str
    seconds_ago: float

    @property
    def installation(self) -> str:
        """The installation in an identity `inferrun/<installation>/<pod>`; empty for other
        identities."""
        parts = self.identity.split("/")
        return parts[1] if len(parts) == 3 and parts[0] == "inferrun" else ""


def judge_queue(
    queue: str, kind: str, pollers: Sequence[Poller], *, installation: str, restart: str
) -> Finding:
    """The finding about a queue. `installation` is empty if unknown; `restart` is the command that
    restarts the worker."""
    what = f"pollers of task queue {queue} ({kind})"
    alive = [poller for poller in pollers if poller.seconds_ago <= STALE_SECONDS]
    if not alive:
        fix = (
            "check that the worker runs with this temporal.address, temporal.namespace and temporal.taskQueue, or restart it:\n"
            f"{restart}"
        )
        return problem(what, "no worker polls it, so runs are not executed", fix=fix)
    others = sorted({poller.identity for poller in alive if poller.installation != installation})
    if installation and others:
        fix = "use a different task queue for each installation: helm upgrade --set temporal.taskQueue=NAME"
        return problem(
            what, f"workers of another installation also poll it: {', '.join(others[:3])}", fix=fix
        )
    return ok(what, f"{len(alive)} worker{'s' if len(alive) > 1 else ''}")
