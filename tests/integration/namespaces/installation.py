"""Installs the chart's permissions for a list of namespaces, and runs shim and worker as processes
that have no others."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import yaml

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import free_port
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object, Resource
from tests.integration.chart.conftest import Manifest, Render
from tests.integration.waiting import until

ROOT = Path(__file__).resolve().parents[3]
KINDS = {
    "ServiceAccount": Resource("v1", "serviceaccounts"),
    "Role": Resource("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Resource("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": Resource("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
}
MODULES = {"shim": "operator_shim", "worker": "worker"}
START_SECONDS = 90


@dataclass(frozen=True)
class Release:
    """A release of the chart, of which only the permissions are installed."""

    plane: ControlPlane
    namespace: str
    watched: tuple[str, ...]
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""

    def environment(self, component: str, *, port: int) -> dict[str, str]:
        """What the chart would set, outside the cluster."""
        return {
            "PATH": os.environ["PATH"],
            "INFERRUN_KUBECONFIG": str(self.folder / component),
            "TEMPORAL_ADDRESS": self.plane.temporal_address,
            "WATCH_NAMESPACE": ",".join(self.watched),
            "INFERRUN_TASK_QUEUE": self.namespace,
            "INFERRUN_RELEASE": f"{self.namespace}.inferrun"[:26],
            "POD_NAMESPACE": self.namespace,
            "HEALTH_PORT": str(port),
            "INFERRUN_DEFAULTS": str(self.folder / "defaults"),
            **self.settings,
        }


CreateNamespace = Callable[[str], Awaitable[str]]
NewRelease = Callable[..., Awaitable[Release]]


async def install(
    api: KubeClient,
    plane: ControlPlane,
    render: Render,
    *,
    namespace: str,
    watched: Sequence[str],
    folder: Path,
) -> Release:
    """Create the accounts and roles of a release, and a kubeconfig for each account."""
    listed = ",".join(watched)
    settings = (
        (f"watchNamespace={{{listed}}}", "rbac.aggregateToDefaultRoles=false") if watched else ()
    )
    for manifest in await asyncio.to_thread(render, *settings, namespace=namespace):
        if resource := KINDS.get(manifest["kind"]):
            await api.create(resource, manifest["metadata"].get("namespace"), manifest)
    for component in MODULES:
        await _write_kubeconfig(api, plane, namespace, component, folder / component)
    return Release(plane, namespace, tuple(watched), folder)


async def _write_kubeconfig(
    api: KubeClient, plane: ControlPlane, namespace: str, component: str, path: Path
) -> None:
    request: Manifest = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {},
    }
    tokens = Resource("v1", f"serviceaccounts/inferrun-{component}/token")
    token = (await api.create(tokens, namespace, request))["status"]["token"]
    await asyncio.to_thread(_write, path, plane.kubeconfig, token)


def _write(path: Path, kubeconfig: Path, token: str) -> None:
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    content["users"] = [
        {"name": user["name"], "user": {"token": token}} for user in content["users"]
    ]
    path.write_text(json.dumps(content), encoding="utf-8")


@asynccontextmanager
async def running(release: Release, *, are_serving: bool = True) -> AsyncIterator[dict[str, int]]:
    """Both programs, ready unless `are_serving` is false, and the ports of their probes."""
    processes = []
    try:
        for component, module in MODULES.items():
            port = free_port()
            with (release.folder / f"{component}.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    module,
                    cwd=ROOT,
                    env=release.environment(component, port=port),
                    stdout=log,
                    stderr=log,
                )
            processes.append((process, port))

        async def are_ready() -> bool:
            assert all(process.returncode is None for process, _ in processes), release.folder
            return all([await asyncio.to_thread(_is_ready, port) for _, port in processes])

        if are_serving:
            await until(are_ready, seconds=START_SECONDS)
        yield {component: port for component, (_, port) in zip(MODULES, processes, strict=True)}
    finally:
        for process, _ in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _is_ready(port: int) -> bool:
    return probe(port)[0] == 200


def probe(port: int) -> tuple[int, str]:
    """The status and the text of /readyz; 0 if there is no answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""


async def create_run(
    api: KubeClient, namespace: str, *, name: str = "run", config: str = "own"
) -> None:
    body = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "metadata": {"name": name}}
    await api.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": config}}})


async def status_of(api: KubeClient, namespace: str, *, name: str = "run") -> Object:
    found: Object = (await api.get(RUNS, namespace, name)).get("status") or {}
    return found


def has_job(api: KubeClient, *namespaces: str, name: str = "run") -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return all(
            [
                (await status_of(api, namespace, name=name)).get("jobStatus")
                for namespace in namespaces
            ]
        )

    return check
