"""A mutating webhook: a server on loopback that the API server asks before it creates a Job in a namespace."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from aiohttp import web

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, Object, Resource
from tests.integration.temporal_security.certificates import Authority
from tests.integration.waiting import eventually

PROBE = {
    "suspend": True,
    "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "inference", "image": "localhost/probe:1"}]}
    },
}
WEBHOOKS = Resource("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")


@asynccontextmanager
async def mutating(api: KubeClient, namespace: str, change: Callable[[Object], object]) -> AsyncIterator[None]:
    """`change` is applied to every Job that is created in the namespace, as soon as the webhook is in force."""

    reviewed: set[str] = set()

    async def is_in_force() -> bool | None:
        name = f"probe-{token_hex(4)}"
        await api.create(JOBS, namespace, {"metadata": {"name": name}, "spec": PROBE}, dryRun="All")
        return name in reviewed or None

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        job = asked["object"]
        reviewed.add(job["metadata"]["name"])
        change(job)
        patch = [{"op": "replace", "path": f"/{part}", "value": job[part]} for part in ("metadata", "spec")]
        answer = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch"}
        answer["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    with TemporaryDirectory() as folder:
        authority, certificate, key = Authority(Path(folder)), Path(folder) / "tls.crt", Path(folder) / "tls.key"
        authority.issue("webhook", certificate=certificate, key=key)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        served = web.Application(client_max_size=4 * 1024 * 1024)
        served.router.add_post("/", review)
        runner = web.AppRunner(served)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        client = {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(authority.path.read_bytes()).decode(),
        }
        created = await api.create(WEBHOOKS, None, _configuration(namespace, client))
        try:
            await eventually(is_in_force, what="the webhook to be in force")
            yield
        finally:
            await api.delete(WEBHOOKS, None, created["metadata"]["name"], uid=created["metadata"]["uid"])
            await runner.cleanup()


def _configuration(namespace: str, client: Object) -> Object:
    webhook = {
        "name": "jobs.example.org",
        "clientConfig": client,
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": f"{namespace}-{token_hex(4)}"}, "webhooks": [webhook]}
