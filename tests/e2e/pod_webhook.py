"""An admission webhook of the tests, which changes the Pods of runs in one namespace, as a service
mesh does."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.e2e.stage import ACTOR_IMAGE, Object, Space
from tests.integration.temporal_security.certificates import Authority

Change = Callable[[Object, int], list[Object]]
"""The JSON patch of a Pod; the number counts the Pods that were seen before."""

UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SLEEP = "import time; time.sleep(3600)"
"""As process 1 it ignores SIGTERM, so that it uses up its grace period."""


def container(program: str, **more: object) -> Object:
    return {
        "name": "injected",
        "image": ACTOR_IMAGE,
        "command": ["python3", "-c", program],
        "securityContext": UNPRIVILEGED,
        **more,
    }


def beside(program: str) -> Change:
    """Put another container before the one of the run, as a mesh does that holds the application
    until its proxy is ready."""
    return lambda _pod, _seen: [
        {"op": "add", "path": "/spec/containers/0", "value": container(program)}
    ]


def native(pod: Object, _seen: int) -> list[Object]:
    """Add a sidecar as Kubernetes defines it: an init container that is restarted, and stopped at
    the end."""
    sidecar = container(SLEEP, restartPolicy="Always")
    if "initContainers" in pod["spec"]:
        return [{"op": "add", "path": "/spec/initContainers/0", "value": sidecar}]
    return [{"op": "add", "path": "/spec/initContainers", "value": [sidecar]}]


@contextmanager
def webhook(space: Space, folder: Path, change: Change) -> Iterator[None]:
    """Have the API server send each Pod of a run in the namespace here when it is created."""
    authority = Authority(folder)
    certificate, key = folder / "tls.crt", folder / "tls.key"
    authority.issue("webhook", certificate=certificate, key=key)
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            patch = change(request["object"], len(seen))
            seen.append(request["uid"])
            response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
            body = json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"{space.name}.tests.inferrun.dev"
    registration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": name,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{server.server_port}/",
                    "caBundle": base64.b64encode(authority.path.read_bytes()).decode(),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
                "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "inferrun"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    space.stage.kubectl("create", "-f", "-", given=json.dumps(registration))
    try:
        yield
    finally:
        space.stage.kubectl("delete", "mutatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()
