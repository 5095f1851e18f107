"""Installs what the demo needs, and removes it: the product's Helm chart, model servers, a
database, a data handler and a store.

Existing objects are kept; runs of previous demos are deleted.
"""

from __future__ import annotations

import base64
import json
import secrets

from examples.demo import crowd, runs
from examples.demo.terminal import DemoFailed, Terminal

SYSTEM = "inferrun-system"
MANIFESTS = ("postgres", "data-handler", "model-server", "llm-server", "s3-server")
CLAIM_MANIFEST = "file-claim"
STORAGE_CLASS = "inferrun-local"
"""The StorageClass in that manifest, which only clusters created by `make cluster` have."""
RUN_MANIFESTS = (
    "iris-run",
    "iris-config",
    "file-run",
    "wrong-image",
    "schedule",
    "waiting-config",
    "llm-batch/config",
    "llm-batch/run",
    "nightly/configs",
    "nightly/schedules",
    "tickets/config",
    "tickets/run",
    "images/config",
    "images/run",
)
OTHER_RUNS = ("iris-from-", crowd.BESIDE, "nightly-")
"""Beginnings of the names of runs that no manifest contains."""
ENDPOINT = "data-handler-endpoint"
GENERATED_SECRETS = {
    "postgres": ["password"],
    "data-handler": ["token"],
    "s3-key": ["accessKeyId", "secretAccessKey"],
}
"""The keys of the Secrets whose values are random."""
TITLE = "Installation"
STORY = """
The product, with its Helm chart; and in the namespace kserve-test a model server (MLServer with scikit-learn), PostgreSQL with
150 irises, a data handler in front of it, a PersistentVolumeClaim for files, a language model (llama.cpp) and an S3 server.
"""
HANDLER_URL = f"http://data-handler.{runs.NAMESPACE}.svc.cluster.local"


IMAGE_ID = "image-id"
IMAGES = {
    "postgres": ["postgres"],
    "data-handler": ["data-handler"],
    "model-server": ["sklearn-iris", "files"],
    "llm-server": ["llm"],
    "s3-server": ["s3"],
}
"""The directories of the example images, and the Deployments that use each."""


def install(terminal: Terminal) -> None:
    _install_product(terminal)
    terminal.run("kubectl apply -f examples/namespaces.yaml")
    _create_secrets(terminal)
    remove_runs(terminal)
    terminal.run("kubectl apply " + " ".join(f"-f examples/{name}.yaml" for name in MANIFESTS))
    terminal.run(
        claim_command(has_class=terminal.succeeds(f"kubectl get storageclass {STORAGE_CLASS}"))
    )
    for folder, deployments in IMAGES.items():
        for deployment in deployments:
            image = _image_id(terminal, f"localhost/inferrun-examples/{folder}:dev")
            _restart_if_outdated(terminal, deployment, image=image)
    terminal.run(
        f"kubectl rollout status -n {runs.NAMESPACE} deployment -l example --timeout=180s",
        timeout=200,
    )


def uninstall(terminal: Terminal) -> None:
    """Delete the runs first, while the product is still there to delete their Temporal
    schedules."""
    if terminal.succeeds("kubectl get crd inferenceruns.ai.krateo.io"):
        remove_runs(terminal)
    terminal.run(f"helm uninstall inferrun -n {SYSTEM} --ignore-not-found --wait")
    terminal.run(
        f"kubectl delete namespace {runs.NAMESPACE} demo-secrets {SYSTEM} --ignore-not-found",
        timeout=180,
    )
    terminal.info(
        "The custom resource definitions are kept, as Helm does. Nothing else in the cluster was changed."
    )


def remove_runs(terminal: Terminal) -> None:
    """Delete the runs of previous demos, and the copied Secret, so that scene 1 starts without
    it."""
    terminal.read(
        "kubectl delete --ignore-not-found --wait "
        + " ".join(f"-f examples/{name}.yaml" for name in RUN_MANIFESTS)
    )
    terminal.read(
        f"kubectl delete inferenceruns -n {runs.NAMESPACE} -l {crowd.SELECTOR} --ignore-not-found"
    )
    submitted = [
        name
        for name in terminal.read(_NAMES).split()
        if name.rpartition("/")[2].startswith(OTHER_RUNS)
    ]
    if submitted:
        terminal.read(f"kubectl delete -n {runs.NAMESPACE} {' '.join(submitted)}")
    terminal.read(f"kubectl delete secret {ENDPOINT} -n {runs.NAMESPACE} --ignore-not-found")


_NAMES = f"kubectl get inferenceruns -n {runs.NAMESPACE} -o name"


def apply_result_of_scene_1(terminal: Terminal) -> None:
    """Apply the config and copy the Secret, so that any other scene can be played separately."""
    terminal.read("kubectl apply -f examples/iris-config.yaml")
    found = runs.get(terminal, "secret", ENDPOINT, namespace="demo-secrets")
    if found is None:
        raise DemoFailed("the demo is not installed; run `make demo` first")
    _apply_secret(terminal, ENDPOINT, runs.NAMESPACE, data=found["data"])


def claim_command(*, has_class: bool) -> str:
    """Clusters without the StorageClass in the manifest use their default class."""
    manifest = f"examples/{CLAIM_MANIFEST}.yaml"
    if has_class:
        return f"kubectl apply -f {manifest}"
    return f"sed '/storageClassName:/d' {manifest} | kubectl apply -f -"


def _image_id(terminal: Terminal, image: str) -> str:
    """A short id of the image that was built last; empty if it was built elsewhere."""
    return (
        terminal.read(f"python3 -m tools.devcluster image-id {image}")
        .strip()
        .removeprefix("sha256:")[:12]
    )


def _restart_if_outdated(terminal: Terminal, deployment: str, *, image: str) -> None:
    """Restart a Deployment whose image was rebuilt under the same name; an annotation records the
    image's id."""
    found = runs.get(terminal, "deployment", deployment) or {}
    deployed = found["metadata"].get("annotations", {}).get(IMAGE_ID, image)
    if deployed != image:
        terminal.read(f"kubectl rollout restart deployment {deployment} -n {runs.NAMESPACE}")
    terminal.read(
        f"kubectl annotate deployment {deployment} -n {runs.NAMESPACE} --overwrite {IMAGE_ID}={image}"
    )


def _install_product(terminal: Terminal) -> None:
    environment = terminal.environment
    temporal = {
        "address": environment.get("INFERRUN_POD_TEMPORAL_ADDRESS")
        or environment["TEMPORAL_ADDRESS"],
        "namespace": environment["TEMPORAL_NAMESPACE"],
        "uiUrl": environment["TEMPORAL_UI_URL"],
    }
    values = " ".join(f"--set temporal.{key}={value}" for key, value in temporal.items())
    if image := _image_id(terminal, "localhost/inferrun/control:dev"):
        values += f" --set-string podAnnotations.{IMAGE_ID}={image}"
    terminal.run(
        f"helm upgrade --install inferrun deploy/helm/inferrun -n {SYSTEM} --create-namespace {values}"
        " --take-ownership --hide-notes --wait --timeout 3m",
        timeout=200,
    )


def _create_secrets(terminal: Terminal) -> None:
    """Generate passwords, tokens and keys. Existing ones are kept, because the running Pods already
    use them."""
    for name, keys in GENERATED_SECRETS.items():
        if runs.get(terminal, "secret", name) is None:
            _apply_secret(
                terminal,
                name,
                runs.NAMESPACE,
                stringData={key: secrets.token_hex(16) for key in keys},
            )
    handler = runs.get(terminal, "secret", "data-handler") or {}
    url = base64.b64encode(HANDLER_URL.encode()).decode()
    _apply_secret(
        terminal,
        ENDPOINT,
        "demo-secrets",
        data={"server-url": url, "token": handler["data"]["token"]},
    )
    terminal.explain(
        f"Created the Secrets {', '.join(GENERATED_SECRETS)} in {runs.NAMESPACE}, {ENDPOINT} in demo-secrets."
    )


def _apply_secret(terminal: Terminal, name: str, namespace: str, **values: dict[str, str]) -> None:
    """Use standard input, so that the values do not appear on a command line."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        **values,
    }
    terminal.read("kubectl apply -f -", stdin=json.dumps(secret))
