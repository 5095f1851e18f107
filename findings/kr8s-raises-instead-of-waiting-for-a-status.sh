#!/usr/bin/env bash
# kr8s 0.20.15: wait("condition=Ready") on an object that has no status yet, as every custom resource after it was created, raises KeyError
# at once instead of waiting for its controller, and wait("jsonpath='{.status.phase}'=Done") ValueError while there is no such field.
# kubectl wait waits in both cases. With an empty status, kr8s waits for the condition.
# Output: condition without status: BoxKeyError; condition with an empty one: waited; jsonpath with an empty one: ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kr8s==0.20.15
cat >program.py <<'PYTHON'
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

READY = {"phase": "Done", "conditions": [{"type": "Ready", "status": "True"}]}
STATUS = {"without": None, "empty": {}, "other": {}}
"""What the object of each name has until its controller has seen it."""
RESOURCES = [{"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": True, "verbs": ["get", "list"]}]
begun = time.monotonic()


class ApiServer(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        name = next((name for name in STATUS if name in self.path), "other")
        item = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}}
        status = STATUS[name]
        if status is not None:
            item["status"] = READY if time.monotonic() - begun > 4 else status
        if "version" in path and "apis" not in path:
            value = {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
        elif path.rstrip("/") == "/api":
            value = {"kind": "APIVersions", "versions": ["v1"]}
        elif path.rstrip("/") == "/api/v1":
            value = {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}
        elif path.rstrip("/") == "/apis":
            group = {"groupVersion": "example.org/v1", "version": "v1"}
            value = {"kind": "APIGroupList", "groups": [{"name": "example.org", "versions": [group], "preferredVersion": group}]}
        elif path.rstrip("/") == "/apis/example.org/v1":
            value = {"kind": "APIResourceList", "groupVersion": "example.org/v1", "resources": RESOURCES}
        elif path.startswith("/apis/example.org/v1/") and path.endswith("/things"):
            value = {"kind": "ThingList", "apiVersion": "example.org/v1", "metadata": {"resourceVersion": "1"}, "items": [item]}
            if "watch" in query:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                until = time.monotonic() + 8
                while time.monotonic() < until:
                    ready = time.monotonic() - begun > 4
                    current = {**item, "status": READY} if ready else item
                    self.wfile.write(json.dumps({"type": "MODIFIED", "object": current}).encode() + b"\n")
                    self.wfile.flush()
                    time.sleep(0.5)
                return
        else:
            value = item
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
threading.Thread(target=server.serve_forever, daemon=True).start()
context = [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]
config = {
    "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": context, "users": [{"name": "u", "user": {"token": "t"}}],
    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
}
Path("kubeconfig").write_text(json.dumps(config))

import kr8s  # noqa: E402
from kr8s.objects import new_class  # noqa: E402

api = kr8s.api(kubeconfig="kubeconfig")
Thing = new_class("Thing", "example.org/v1", namespaced=True)
print(f"kr8s {version('kr8s')}")


def wait(name, condition):
    item = {"metadata": {"name": name, "namespace": "default", "uid": name}}
    try:
        Thing(item, api=api).wait(condition, timeout=20)
    except (KeyError, ValueError) as error:
        return type(error).__name__
    return "waited"


found = [
    wait("without", "condition=Ready"),
    wait("other", "jsonpath='{.status.phase}'=Done"),
    wait("empty", "condition=Ready"),
]
print(f"condition without status: {found[0]}; condition with an empty one: {found[2]}; jsonpath with an empty one: {found[1]}")
right = found == ["BoxKeyError", "ValueError", "waited"]
sys.stdout.flush()
import os  # noqa: E402

os._exit(not right)
PYTHON
timeout 60 venv/bin/python program.py
