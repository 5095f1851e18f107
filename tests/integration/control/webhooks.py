"""A mutating webhook, a server on loopback that the API server asks before it creates a Job or a
Pod; and a policy that denies."""

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
from inferrun.kube.errors import Forbidden
from inferrun.kube.objects import JOBS, Object, Resource
from tests.integration.temporal_security.certificates import Authority
from tests.integration.waiting import eventually

PROBE = {
    "suspend": True,
    "template": {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "inference", "image": "localhost/probe:1"}],
        }
    },
}
OF_POD = {
    "restartPolicy": "Never",
    "containers": [{"name": "inference", "image": "localhost/probe:1"}],
}
POLICIES = Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
BINDINGS = Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
WEBHOOKS = Resource("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")


@asynccontextmanager
async def mutating(
    api: KubeClient, namespace: str, change: Callable[[Object], object], *, of: Resource = JOBS
) -> AsyncIterator[None]:
    """`change` is applied to every Job, or every Pod, that is created in the namespace, as soon as
    the webhook is in force."""

    reviewed: set[str] = set()

    async def is_in_force() -> bool | None:
        name = f"probe-{token_hex(4)}"
        spec = PROBE if of is JOBS else OF_POD
        await api.create(of, namespace, {"metadata": {"name": name}, "spec": spec}, dryRun="All")
        return name in reviewed or None

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        item = asked["object"]
        reviewed.add(item["metadata"].get("name", ""))
        change(item)
        patch = [
            {"op": "replace", "path": f"/{part}", "value": item[part]}
            for part in ("metadata", "spec")
        ]
        answer = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch"}
        answer["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        )

    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificate = Path(folder) / "tls.crt"
        key = Path(folder) / "tls.key"
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
        created = await api.create(WEBHOOKS, None, _configuration(namespace, client, of=of))
        try:
            await eventually(is_in_force, what="the webhook to be in force")
            yield
        finally:
            await api.delete(
                WEBHOOKS, None, created["metadata"]["name"], uid=created["metadata"]["uid"]
            )
            await runner.cleanup()


@asynccontextmanager
async def denying_updates(api: KubeClient, namespace: str, message: str) -> AsyncIterator[None]:
    """A policy that denies every change of a Job in the namespace with this message, in force until
    the end."""
    name = f"{namespace}-{token_hex(4)}"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["jobs"],
    }
    constraints = {"namespaceSelector": selector, "resourceRules": [rule]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "validations": [{"expression": "false", "message": message}],
    }
    probe = await api.create(
        JOBS, namespace, {"metadata": {"name": f"probe-{token_hex(4)}"}, "spec": PROBE}
    )

    async def is_denied() -> bool:
        try:
            await api.patch(
                JOBS,
                namespace,
                probe["metadata"]["name"],
                {"metadata": {"labels": {"a": token_hex(4)}}},
            )
        except Forbidden:
            return True
        return False

    async def is_in_force() -> bool | None:
        return await is_denied() or None

    async def is_gone() -> bool | None:
        return not await is_denied() or None

    binding = {"policyName": name, "validationActions": ["Deny"]}
    for resource, body in ((POLICIES, spec), (BINDINGS, binding)):
        await api.create(resource, None, {"metadata": {"name": name}, "spec": body})
    try:
        await eventually(is_in_force, what="the policy to be in force")
        yield
    finally:
        for resource in (BINDINGS, POLICIES):
            stored = await api.get(resource, None, name)
            await api.delete(resource, None, name, uid=stored["metadata"]["uid"])
        await eventually(is_gone, what="the policy to be gone")


def _configuration(namespace: str, client: Object, *, of: Resource) -> Object:
    group, version = ("batch", "v1") if of is JOBS else ("", "v1")
    webhook = {
        "name": f"{of.plural}.example.org",
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": ["CREATE"],
                "resources": [of.plural],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": f"{namespace}-{token_hex(4)}"}, "webhooks": [webhook]}
