"""A port of this machine whose connections go to the Pods of a Service, through the API server.

The official client forwards them, each over a connection of its own to the API server. It is the
client without an event loop: the other one cannot forward ports.
"""

import random
import selectors
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes import client, config
from kubernetes.stream import portforward

from inferrun.kube.errors import Invalid, KubeError, NotConfigured, Unreachable, error_of

MOST_CONNECTIONS: Final = 64
"""Connections at a time; more are closed, as by a server that is busy. The client waits for them with
`select`, which ends at 1,024 descriptors, of which each connection needs five."""


@contextmanager
def forwarded_service(
    namespace: str, name: str, port: int, *, kubeconfig: Path, context: str | None
) -> Iterator[int]:
    """The port at 127.0.0.1 from which connections go to this port of the Service, each to one of
    its Pods that are ready. Raises KubeError if there is none.
    """
    try:
        loaded = config.new_client_from_config(str(kubeconfig), context=context)
    except config.ConfigException as error:
        raise NotConfigured(f"{kubeconfig}: {error}") from error
    pods = _PodsOfService(client.CoreV1Api(loaded), namespace, name, port)
    pods.choose()
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.pods, server.room = pods, threading.BoundedSemaphore(MOST_CONNECTIONS)
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


class _PodsOfService:
    # Any: the client's models say of all fields that they may be absent
    def __init__(self, api: Any, namespace: str, name: str, port: int) -> None:
        self._api = api
        self._namespace = namespace
        self._title = f"Service {namespace}/{name}"
        self._port = port
        # The client replaces a method of itself while it connects.
        self._lock = threading.Lock()
        with _kube_errors():
            self._service = api.read_namespaced_service(name, namespace)

    def choose(self) -> tuple[str, int]:
        """A Pod that is ready, and its port. Raises KubeError."""
        selector = self._service.spec.selector
        if not selector:
            raise Invalid(f"{self._title} has no Pods of its own: it leads to a gateway")
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        with _kube_errors():
            pods = self._api.list_namespaced_pod(self._namespace, label_selector=labels).items
        ready = [one for one in pods if _is_ready(one)]
        if not ready:
            raise Invalid(f"{self._title} has no Pod that is ready")
        # not a secret: whichever takes a connection
        pod = random.choice(ready)  # noqa: S311
        return pod.metadata.name, self._port_of(pod)

    def connect(self) -> socket.socket:
        """A connection to one of the Pods. Raises KubeError."""
        with self._lock:
            pod, port = self.choose()
            with _kube_errors():
                forward = portforward(
                    self._api.connect_get_namespaced_pod_portforward,
                    pod,
                    self._namespace,
                    ports=str(port),
                )
        found: socket.socket = forward.socket(port)
        return found

    def _port_of(self, pod: Any) -> int:  # Any: as above
        if self._service.spec.cluster_ip == "None":
            return self._port  # nothing maps the ports of such a Service
        targets = [
            one.target_port for one in self._service.spec.ports or () if one.port == self._port
        ]
        target = targets[0] if targets else self._port
        named = {
            one.name: one.container_port
            for container in pod.spec.containers
            for one in container.ports or ()
        }
        return int(named.get(target, target))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    pods: _PodsOfService
    room: threading.BoundedSemaphore


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Copy what either side sends until one of them closes the connection. It is closed at once
        if there is no room for it, or no Pod."""
        if not self.server.room.acquire(blocking=False):
            return
        try:
            self._copy(self.server.pods.connect())
        except KubeError:
            return
        finally:
            self.server.room.release()

    def _copy(self, there: socket.socket) -> None:
        here: socket.socket = self.request
        ways = {here.fileno(): (here, there), there.fileno(): (there, here)}
        with selectors.DefaultSelector() as selector:
            for descriptor in ways:
                selector.register(descriptor, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in selector.select():
                        source, target = ways[key.fd]
                        data = source.recv(65536)
                        if not data:
                            return
                        target.sendall(data)
            except OSError:
                return
            finally:
                there.close()


def _is_ready(pod: Any) -> bool:  # Any: as above
    conditions = {one.type: one.status for one in pod.status.conditions or ()}
    return pod.metadata.deletion_timestamp is None and conditions.get("Ready") == "True"


@contextmanager
def _kube_errors() -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        if not error.status:  # a handshake that failed
            raise Unreachable(str(error.reason)) from error
        raise error_of(error.status, str(error.body or error.reason).encode()) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(str(error)) from error
