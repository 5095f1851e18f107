"""Stands in front of a model without Pods, as Knative's activator does: a request has one started, and is held for a while.

It logs the address of each client. Standard library only.
"""

import http.client
import json
import os
import socket
import ssl
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEPLOYMENT = "model"
MODEL = ("model", 80)
HELD_SECONDS = 5.0
"""After this time a request is answered with 503, and its client may try again."""


def scale_up() -> None:
    """Set the number of replicas to 1."""
    namespace, token = (ACCOUNT.joinpath(name).read_text() for name in ("namespace", "token"))
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    request = urllib.request.Request(  # noqa: S310 -- https
        f"{server}/apis/apps/v1/namespaces/{namespace}/deployments/{DEPLOYMENT}/scale",
        data=json.dumps({"spec": {"replicas": 1}}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        method="PATCH",
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=context, timeout=10) as response:  # noqa: S310 -- the API server
        response.read()


def is_awake() -> bool:
    """Whether the Service of the model has a Pod that accepts connections."""
    try:
        socket.create_connection(MODEL, timeout=1).close()
    except OSError:
        return False
    return True


class Activator(BaseHTTPRequestHandler):
    """Passes requests on once the model is awake."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Pass on."""
        self._pass_on(None)

    def do_POST(self) -> None:
        """Pass on with its body."""
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass_on(self, body: bytes | None) -> None:
        sys.stdout.write(f"client {self.client_address[0]}\n")
        sys.stdout.flush()
        if not is_awake():
            scale_up()
        until = time.monotonic() + HELD_SECONDS
        while not is_awake():
            if time.monotonic() > until:
                self._answer(503, b"")
                return
            time.sleep(0.1)
        connection = http.client.HTTPConnection(*MODEL, timeout=30)
        connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        self._answer(response.status, response.read())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
        """Log nothing else."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Activator).serve_forever()
