"""The model of a run that KServe serves in a cluster, reached from this machine.

Its address is read as a worker reads it, with the rights of the user. A Service of the cluster is
reached through the API server; what grants say is not looked at.
"""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from inferrun.client.errors import InvalidRequest, kubernetes_errors
from inferrun.client.kserve_models import KServeModels
from inferrun.kserve import ModelAddress
from inferrun.kube.client import connect, own_namespace
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import SECRETS
from inferrun.kube.port_forward import MOST_CONNECTIONS, forwarded_service
from inferrun.launches.pod_mounts import MODEL_CA_KEYS
from inferrun.launches.snapshot import WantedService
from inferrun.local.request import WHEN_READY, Cluster

_PORTS: Final = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}


def namespace_of(cluster: Cluster) -> str:
    """The namespace of the cluster's context. Raises ClientError."""
    with kubernetes_errors("the context"):
        return own_namespace(cluster.kubeconfig, context=cluster.context)


@contextmanager
def reached(service: WantedService, cluster: Cluster) -> Iterator[ModelAddress]:
    """Where this machine reaches the model, as long as the context is open. Raises LaunchBlocked as
    a worker does, and ClientError.
    """
    with kubernetes_errors(str(service)), ThreadPoolExecutor(1) as pool:  # a notebook has a loop
        address = pool.submit(asyncio.run, _find(service, cluster)).result()
    parts = urlsplit(address.url)
    labels = (parts.hostname or "").split(".")
    is_service = len(labels) == 2 or labels[2:3] == ["svc"]
    if cluster.kubeconfig is None or not is_service:
        yield address
        return
    name, namespace = labels[:2]
    port = parts.port or _PORTS[parts.scheme]
    forwarding = forwarded_service(
        namespace, name, port, kubeconfig=cluster.kubeconfig, context=cluster.context
    )
    with ExitStack() as stack:
        try:
            with kubernetes_errors(f"Service {namespace}/{name}"):
                forwarded = stack.enter_context(forwarding)
        except InvalidRequest as error:
            text = f"{service} cannot be reached from here: {error}"
            raise InvalidRequest(text, fix=WHEN_READY) from error
        # KServe's certificates name 127.0.0.1
        here = parts._replace(netloc=f"127.0.0.1:{forwarded}").geturl()
        limit = min(address.concurrency or MOST_CONNECTIONS, MOST_CONNECTIONS)
        yield replace(address, url=here, concurrency=limit)


async def _find(service: WantedService, cluster: Cluster) -> ModelAddress:
    api = await connect(kubeconfig=cluster.kubeconfig, context=cluster.context)
    try:
        address = await KServeModels(api).find(service)
        if not address.ca_secret:
            return address
        try:
            found = await api.get(SECRETS, service.namespace, address.ca_secret)
        except KubeError:  # without the right to read it, the authorities of this machine must do
            return replace(address, ca_secret="")
        keys = found.get("data") or {}
        authority = next((keys[key] for key in MODEL_CA_KEYS if key in keys), "")
        certificates = b64decode(authority).decode(errors="replace")
        return replace(address, ca_secret="", ca_certificates=certificates)
    finally:
        await api.close()
