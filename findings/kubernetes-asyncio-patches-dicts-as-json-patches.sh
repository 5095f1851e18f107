#!/usr/bin/env bash
# kubernetes_asyncio 36.1.0: patch_namespaced_custom_object with a dict sends it as application/json-patch+json, which has to be a list
# (RFC 6902), so an API server answers 400. The same call of the Python client `kubernetes` 36.0.3 sends application/merge-patch+json.
# Output: kubernetes application/merge-patch+json, kubernetes_asyncio application/json-patch+json; body {"spec": {"a": 1}} of both
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kubernetes_asyncio==36.1.0 kubernetes==36.0.3
cat >program.py <<'PYTHON'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import kubernetes
import kubernetes_asyncio

seen = []


class ApiServer(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen.append((self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


server = HTTPServer(("127.0.0.1", 0), ApiServer)
threading.Thread(target=server.serve_forever, daemon=True).start()
host, body = f"http://127.0.0.1:{server.server_port}", {"spec": {"a": 1}}
item = ("example.org", "v1", "default", "things", "one", body)

client = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=host))
kubernetes.client.CustomObjectsApi(client).patch_namespaced_custom_object(*item)


async def patch():
    async with kubernetes_asyncio.client.ApiClient(kubernetes_asyncio.client.Configuration(host=host)) as client:
        await kubernetes_asyncio.client.CustomObjectsApi(client).patch_namespaced_custom_object(*item)


asyncio.run(patch())
print(f"kubernetes {version('kubernetes')}, kubernetes_asyncio {version('kubernetes_asyncio')}")
print(f"kubernetes {seen[0][0]}, kubernetes_asyncio {seen[1][0]}; body {json.dumps(seen[1][1])} of both")
types = [one[0] for one in seen]
sys.exit(types != ["application/merge-patch+json", "application/json-patch+json"] or seen[0][1] != seen[1][1])
PYTHON
venv/bin/python program.py
