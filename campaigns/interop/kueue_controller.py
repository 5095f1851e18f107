"""Kueue's own controller on a control plane without a node: the real program with its webhooks,
which listens on loopback only.

Kueue is built from its Go module (`python -m tools.devcluster kueue`), from which its definitions,
webhooks and settings are read, too. Kueue makes its certificate itself; what a kubelet would mount
is copied from the Secret.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from campaigns.benchmarks.control_plane import ControlPlane, server_environment
from campaigns.benchmarks.processes import free_port, listens, start
from campaigns.interop.kserve_controllers import create_when_served
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import DEFINITIONS, NAMESPACES, SECRETS, SERVICES, Object, Resource
from tools.devcluster.binaries import KUEUE, module_folder, program_dir

ADMISSION: Final = "admissionregistration.k8s.io/v1"
GROUP: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS: Final = Resource(GROUP, "workloads")
NAMESPACE: Final = "kueue-system"
SERVICE: Final = "kueue-webhook-service"
SECRET: Final = "kueue-webhook-server-cert"
SECONDS: Final = 120.0
"""For Kueue to start."""


@asynccontextmanager
async def kueue(plane: ControlPlane, api: KubeClient) -> AsyncIterator[None]:
    """Install Kueue and run its controller."""
    program = program_dir(KUEUE) / "kueue"
    if not program.exists():
        raise FileNotFoundError(f"{program}; to build it, run `python -m tools.devcluster kueue`")
    folder, port = plane.kubeconfig.parent, free_port()
    files = module_folder(KUEUE, "sigs.k8s.io/kueue") / "config" / "components"
    certificates = folder / "kueue"
    certificates.mkdir()
    await _install(api, files, port=port)
    [settings] = _read(files / "manager" / "controller_manager_config.yaml")
    settings |= {
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
    }
    config = folder / "kueue.json"
    config.write_text(json.dumps(settings))
    command = [str(program), f"--config={config}", "--feature-gates=VisibilityOnDemand=false"]
    environment = {**server_environment(folder), "KUBECONFIG": str(plane.kubeconfig)}
    process = start("kueue", command, logs=folder, environment=environment)
    try:
        await _mount_certificate(api, certificates)
        await asyncio.to_thread(process.wait_until, listens(port), seconds=SECONDS)
        await create(api, "ResourceFlavor", "default", spec={})
        yield
    finally:
        process.stop()


async def _install(api: KubeClient, files: Path, *, port: int) -> None:
    """The webhooks are reached through a Service, whose name is in Kueue's certificate and leads to
    this machine."""
    service = {"name": SERVICE, "namespace": NAMESPACE, "port": port}
    await api.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
    await api.create(SECRETS, NAMESPACE, {"metadata": {"name": SECRET}})
    name = {"type": "ExternalName", "externalName": "localhost"}
    await api.create(SERVICES, NAMESPACE, {"metadata": {"name": SERVICE}, "spec": name})
    [patches] = _read(files / "crd" / "kustomization.yaml")
    converted = [_read(files / "crd" / patch["path"])[0] for patch in patches["patches"]]
    conversions = {patch["metadata"]["name"]: patch["spec"] for patch in converted}
    for conversion in conversions.values():
        conversion["conversion"]["webhook"]["clientConfig"]["service"] |= service
    for path in sorted((files / "crd" / "bases").glob("*.yaml")):
        for definition in _read(path):
            definition["spec"] |= conversions.get(definition["metadata"]["name"], {})
            await api.create(DEFINITIONS, None, definition)
    for configuration in _read(files / "webhook" / "manifests.yaml"):
        configuration["metadata"]["name"] = f"kueue-{configuration['metadata']['name']}"
        for hook in configuration["webhooks"]:
            hook["clientConfig"]["service"] |= service
        kind = configuration["kind"].lower()
        await api.create(Resource(ADMISSION, f"{kind}s"), None, configuration)


def _read(path: Path) -> list[Object]:
    return list(yaml.safe_load_all(path.read_text()))


async def _mount_certificate(api: KubeClient, folder: Path) -> None:
    async with asyncio.timeout(SECONDS):
        while not (data := (await api.get(SECRETS, NAMESPACE, SECRET)).get("data")):  # noqa: ASYNC110 -- on a server
            await asyncio.sleep(0.2)
    for name, content in data.items():
        (folder / name).write_bytes(base64.b64decode(content))


async def create(
    api: KubeClient, kind: str, name: str, *, namespace: str | None = None, **content: Any
) -> None:
    """Create an object of Kueue; its API may not be served yet."""
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, **content}
    await create_when_served(api, Resource(GROUP, plural), namespace, body)


async def create_queue(api: KubeClient, namespace: str, name: str, *, pods: int) -> None:
    """A LocalQueue, and its own ClusterQueue with a quota of so many Pods, in which a higher
    priority preempts a lower one."""
    amounts = {"pods": pods, "cpu": 1000, "memory": "1000Gi", "ephemeral-storage": "1000Gi"}
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in amounts.items()]
    flavor = {"name": "default", "resources": resources}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": [flavor]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    await create(api, "ClusterQueue", f"{namespace}-{name}", spec=spec)
    await create(
        api, "LocalQueue", name, namespace=namespace, spec={"clusterQueue": f"{namespace}-{name}"}
    )
