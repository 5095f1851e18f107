"""KServe's own controllers on a control plane without a node, and what a kubelet would write to the
status of their Pods.

The controllers are built from KServe's Go module (`python -m tools.devcluster kserve`), and its
definitions, runtimes and settings are read from Go's module cache. Nothing pulls an image and
nothing serves: the tests are about what the objects say.
"""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from activities.model_reader import ModelReader
from campaigns.benchmarks.control_plane import ControlPlane, server_environment
from campaigns.benchmarks.processes import Launch, Process, listens, serve
from inferrun.kserve import GROUP, ModelAddress
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import CONFIG_MAPS, NAMESPACES, PODS, Object, Resource
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import WantedService
from tests.definitions import DEFINITIONS
from tests.integration.kserve.cluster import BY_KIND
from tools.devcluster.binaries import KSERVE, module_folder, program_dir

MODULE: Final = "github.com/kserve/kserve"
WEBHOOKS: Final = Resource("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")
DEPLOYMENTS: Final = Resource("apps/v1", "deployments")
RUNTIMES: Final = Resource(f"{GROUP}/v1alpha1", "clusterservingruntimes")
LLM_CONFIGS: Final = Resource(f"{GROUP}/v1alpha2", "llminferenceserviceconfigs")
SECONDS: Final = 60.0
"""For a controller to act."""

DEFAULTS_PATH: Final = "/mutate-serving-kserve-io-v1beta1-inferenceservice"


def start(plane: ControlPlane) -> Iterator[Process]:
    """Install KServe and run its controllers until the generator is closed."""
    folder = plane.kubeconfig.parent
    program = program_dir(KSERVE) / "kserve"
    if not program.exists():
        raise FileNotFoundError(f"{program}; to build it, run `python -m tools.devcluster kserve`")
    asyncio.run(_install(plane.kubeconfig))
    environment = {**server_environment(folder), "KUBECONFIG": str(plane.kubeconfig)}
    certificates = folder / "certificates"

    def at(port: int) -> Launch:
        return Launch(
            [str(program), f"--webhook-port={port}", f"--cert-dir={certificates}"], listens(port)
        )

    process, port = serve("kserve", at, logs=folder, environment=environment, seconds=SECONDS)
    try:
        authority = (certificates / "apiserver.crt").read_bytes()
        asyncio.run(_register(plane.kubeconfig, port=port, authority=authority))
        yield process
    finally:
        process.stop()


async def _install(kubeconfig: Path) -> None:
    files = module_folder(KSERVE, MODULE) / "config"
    api = await connect(kubeconfig=kubeconfig)
    try:
        await api.create(NAMESPACES, None, {"metadata": {"name": "kserve"}})
        for path in sorted((files / "crd" / "full").rglob("serving.kserve.io_*.yaml")):
            for definition in yaml.safe_load_all(path.read_text()):
                await api.create(DEFINITIONS, None, definition)
        await api.create(
            CONFIG_MAPS, "kserve", _settings(files / "configmap" / "inferenceservice.yaml")
        )
        for name in ("sklearnserver", "mlserver", "torchserve", "vllmserver"):
            await create_when_served(
                api, RUNTIMES, None, _read(files / "runtimes" / f"kserve-{name}.yaml")
            )
        await _until_discovered(api)
        template = _read(files / "llmisvcconfig" / "config-llm-template.yaml")
        await create_when_served(api, LLM_CONFIGS, "kserve", template)
    finally:
        await api.close()


def _settings(path: Path) -> Object:
    """KServe's settings for Standard mode without an ingress, with headless Services where an
    object asks for them."""
    settings = _read(path)
    ingress = {**json.loads(settings["data"]["ingress"]), "disableIngressCreation": True}
    settings["data"] |= {
        "deploy": json.dumps({"defaultDeploymentMode": "Standard"}),
        "ingress": json.dumps(ingress),
    }
    return settings


def _read(path: Path) -> Object:
    item: Object = yaml.safe_load(path.read_text())
    return item


async def create_when_served(
    api: KubeClient, resource: Resource, namespace: str | None, item: Object
) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await api.create(resource, namespace, item)
            except KubeError:
                await asyncio.sleep(0.2)
            else:
                return


async def _until_discovered(api: KubeClient) -> None:
    """Wait until discovery has all versions of the group; a controller that starts earlier
    exits."""
    async with asyncio.timeout(SECONDS):
        for version in ("v1alpha1", "v1alpha2", "v1beta1"):
            while True:
                try:
                    await api.text(f"/apis/{GROUP}/{version}")
                except KubeError:
                    await asyncio.sleep(0.2)
                else:
                    break


async def _register(kubeconfig: Path, *, port: int, authority: bytes) -> None:
    """The webhook that sets the defaults of an InferenceService."""
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1beta1"],
        "resources": ["inferenceservices"],
        "operations": ["CREATE", "UPDATE"],
    }
    hook = {
        "name": "inferenceservice.kserve-webhook-server.defaulter",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}{DEFAULTS_PATH}",
            "caBundle": base64.b64encode(authority).decode(),
        },
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api = await connect(kubeconfig=kubeconfig)
    try:
        await api.create(WEBHOOKS, None, {"metadata": {"name": "kserve"}, "webhooks": [hook]})
    finally:
        await api.close()


@dataclass(frozen=True)
class Models:
    """The objects of KServe in a namespace, and what a run would do with them."""

    api: KubeClient
    namespace: str
    reader: ModelReader

    async def apply(self, kind: str, name: str, spec: Object, **annotations: str) -> Object:
        """Create the object, or replace its spec."""
        resource = BY_KIND[kind]
        body: Object = {
            "apiVersion": resource.group_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "annotations": annotations},
            "spec": spec,
        }
        try:
            return await self.api.create(resource, self.namespace, body)
        except KubeError as error:
            if getattr(error, "status", 0) != 409:
                raise
            return await self.api.patch(resource, self.namespace, name, {"spec": spec})

    async def answer(self, kind: str, name: str, **wanted: Any) -> ModelAddress | LaunchBlocked:
        """What a launch of a run finds."""
        service = WantedService(kind=kind, namespace=self.namespace, name=name, **wanted)
        try:
            return await self.reader.find(service, namespace=self.namespace)
        except LaunchBlocked as blocked:
            return blocked

    async def answers(
        self,
        kind: str,
        name: str,
        *,
        until: Callable[[ModelAddress | LaunchBlocked], bool],
        **wanted: Any,
    ) -> ModelAddress | LaunchBlocked:
        found = await self.answer(kind, name, **wanted)
        try:
            async with asyncio.timeout(SECONDS):
                while not until(found):
                    await asyncio.sleep(0.1)
                    found = await self.answer(kind, name, **wanted)
        except TimeoutError:
            raise AssertionError(f"the last answer was {found!r}") from None
        return found

    async def pods(self, prefix: str, *, count: int | None = None) -> list[Object]:
        """The Pods whose names begin so, oldest first; `count`: waits until there are so many."""
        async with asyncio.timeout(SECONDS):
            while True:
                listed = (await self.api.list(PODS, self.namespace))["items"]
                found = [pod for pod in listed if pod["metadata"]["name"].startswith(prefix)]
                if count is None or len(found) == count:
                    return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
                await asyncio.sleep(0.1)

    async def play(
        self, pod: Object, state: Object, *, is_ready: bool = False, restarts: int = 0
    ) -> None:
        """Give the containers of a Pod this state, as a kubelet does."""
        containers = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "ready": is_ready,
                "restartCount": restarts,
                "state": state,
                "lastState": state if "terminated" in state else {},
            }
            for one in pod["spec"]["containers"]
        ]
        verdict = "True" if is_ready else "False"
        conditions = [{"type": kind, "status": verdict} for kind in ("Ready", "ContainersReady")]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": containers}
        await self.api.patch(
            PODS, self.namespace, pod["metadata"]["name"], {"status": status}, sub="status"
        )

    async def make_ready(self, prefix: str) -> None:
        """Start all Pods whose names begin so; waits until there is one."""
        async with asyncio.timeout(SECONDS):
            while not (found := await self.pods(prefix)):  # noqa: ASYNC110 -- a server has no event of its own
                await asyncio.sleep(0.1)
        for pod in found:
            await self.play(pod, {"running": {}}, is_ready=True)

    async def exceed_deadline(self, deployment: str) -> None:
        """Write the status that the Deployment controller writes after the progress deadline, and
        keeps until there is progress.

        KServe sets the deadline itself, to 10 minutes.
        """
        progress = {
            "type": "Progressing",
            "status": "False",
            "reason": "ProgressDeadlineExceeded",
            "message": "late",
        }
        found = await self.api.get(DEPLOYMENTS, self.namespace, deployment)
        others = [one for one in found["status"]["conditions"] if one["type"] != "Progressing"]
        status = {"conditions": [*others, progress]}
        await self.api.patch(
            DEPLOYMENTS, self.namespace, deployment, {"status": status}, sub="status"
        )

    @asynccontextmanager
    async def headless(self) -> AsyncIterator[None]:
        """KServe makes Services without an address of their own, as its setting
        `serviceClusterIPNone` says."""
        await self._set_service('{"serviceClusterIPNone": true}')
        try:
            yield
        finally:
            await self._set_service(None)

    async def _set_service(self, value: str | None) -> None:
        await self.api.patch(
            CONFIG_MAPS, "kserve", "inferenceservice-config", {"data": {"service": value}}
        )


@asynccontextmanager
async def models(plane: ControlPlane) -> AsyncIterator[Models]:
    api = await connect(kubeconfig=plane.kubeconfig)
    namespace = f"models-{os.urandom(3).hex()}"
    await api.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    try:
        yield Models(api, namespace, ModelReader(api))
    finally:
        await api.close()
