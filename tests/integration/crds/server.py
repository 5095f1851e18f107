"""A plain HTTP client of the API server; a rejected request is an exception with the server's
message."""

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import yaml

from deploy.crds.definitions import inference_config, inference_run
from inferrun import wellknown
from tests.definitions import SERVED_SECONDS

Json = dict[str, Any]  # Any: manifests are free-form JSON

PLURALS: Final = {
    wellknown.CONFIG_KIND: wellknown.CONFIG_PLURAL,
    wellknown.RUN_KIND: wellknown.RUN_PLURAL,
}
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


LEFT_ALONE: Final = {wellknown.ANNOTATION_PAUSED: "true"}
"""On every object, so that an installed product does not write to the objects of a test."""


class Rejected(Exception):
    """The API server rejected an object as invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotServed(Exception):
    """The API server does not serve the resource (yet)."""


@contextmanager
def connected(kubeconfig: Path) -> Iterator[httpx.Client]:
    """A client for the cluster of the kubeconfig's current context."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    named = {
        kind: {entry["name"]: entry for entry in content[kind]}
        for kind in ("clusters", "users", "contexts")
    }
    context = named["contexts"][content["current-context"]]["context"]
    cluster = named["clusters"][context["cluster"]]["cluster"]
    user = named["users"][context["user"]]["user"]
    with TemporaryDirectory() as folder:
        tls = ssl.create_default_context(
            cafile=_file(cluster, "certificate-authority", folder=Path(folder))
        )
        if certificate := _file(user, "client-certificate", folder=Path(folder)):
            tls.load_cert_chain(certificate, _file(user, "client-key", folder=Path(folder)))
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        with httpx.Client(
            base_url=cluster["server"], verify=tls, headers=headers, timeout=30
        ) as client:
            yield client


def _file(section: Json, key: str, *, folder: Path) -> str | None:
    """The path of a file with the content of `key` or of its inline `key-data`."""
    if f"{key}-data" not in section:
        return section.get(key)
    path = folder / key
    path.write_bytes(base64.b64decode(section[f"{key}-data"]))
    return str(path)


def call(client: httpx.Client, method: str, path: str, body: object = None, **options: Any) -> Json:
    """One request. Raises Rejected, NotServed, or httpx.HTTPStatusError with the server's
    answer."""
    answer = client.request(
        method, path, content=None if body is None else json.dumps(body), **options
    )
    if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        raise Rejected(answer.json()["message"])
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise NotServed(answer.text)
    if answer.is_error:
        raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
    content: Json = answer.json()
    return content


def apply_definitions(client: httpx.Client) -> None:
    """Apply both of our definitions, and wait until they are served."""
    deadline = time.monotonic() + SERVED_SECONDS
    for definition in (inference_config(), inference_run()):
        apply_definition(client, definition)
    for plural in PLURALS.values():
        path = f"/apis/{wellknown.GROUP}/{wellknown.VERSION}/{plural}?limit=1"
        while client.get(path).status_code == httpx.codes.NOT_FOUND:
            assert time.monotonic() < deadline, f"{plural} is not served"
            time.sleep(0.1)


def apply_definition(client: httpx.Client, definition: Json) -> None:
    """Server-side apply of a CustomResourceDefinition, which is served shortly afterwards."""
    call(
        client,
        "PATCH",
        f"{DEFINITIONS}/{definition['metadata']['name']}",
        definition,
        headers={"Content-Type": "application/apply-patch+yaml"},
        params={"fieldManager": "inferrun-tests", "force": "true"},
    )


class Server:
    """One namespace of a real API server."""

    def __init__(
        self, client: httpx.Client, *, namespace: str, group: str = wellknown.GROUP
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._group = group

    def try_out(self, kind: str, spec: object, *, name: str = "tried") -> Json:
        return self._create(kind, spec, name=name, params={"dryRun": "All"})

    def create(self, kind: str, spec: object, *, name: str) -> Json:
        return self._create(kind, spec, name=name, params={})

    def replace_status(self, kind: str, stored: Json) -> Json:
        return call(
            self._client, "PUT", self._path(kind, stored["metadata"]["name"], "status"), stored
        )

    def patch_status(self, kind: str, name: str, status: object) -> Json:
        return self._merge(self._path(kind, name, "status"), {"status": status})

    def patch_spec(self, kind: str, name: str, spec: object) -> Json:
        return self._merge(self._path(kind, name), {"spec": spec})

    def get(self, kind: str, name: str) -> Json:
        return call(self._client, "GET", self._path(kind, name))

    def _create(self, kind: str, spec: object, *, name: str, params: Json) -> Json:
        body = {
            "apiVersion": f"{self._group}/{wellknown.VERSION}",
            "kind": kind,
            "metadata": {"name": name, "namespace": self._namespace, "annotations": LEFT_ALONE},
            "spec": spec,
        }
        return call(self._client, "POST", self._path(kind), body, params=params)

    def _merge(self, path: str, patch: Json) -> Json:
        return call(
            self._client,
            "PATCH",
            path,
            patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )

    def _path(self, kind: str, *below: str) -> str:
        return "/".join(
            (
                "/apis",
                self._group,
                wellknown.VERSION,
                "namespaces",
                self._namespace,
                PLURALS[kind],
                *below,
            )
        )
