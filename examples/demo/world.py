"""Sets the demo's world up, and takes it down again: the product by its Helm chart, the model server, table and data handler.

What is there already stays; what earlier demos left of their runs goes.
"""

from __future__ import annotations

import base64
import json
import secrets

from examples.demo import runs
from examples.demo.stage import BrokenPromise, Stage

SYSTEM = "inferrun-system"
MANIFESTS = ("namespaces", "postgres", "data-handler", "model-server", "file-claim")
RUN_MANIFESTS = ("iris-run", "iris-config", "file-run", "wrong-image", "schedule")
ENDPOINT = "data-handler-endpoint"
STORY = """
The product, by its Helm chart; in namespace kserve-test a model server (MLServer, scikit-learn), PostgreSQL with 150 irises,
a data handler in front of it, and a claim for files.
"""
HANDLER_URL = f"http://data-handler.{runs.NAMESPACE}.svc.cluster.local"


IMAGE_ID = "image-id"
IMAGES = {
    "postgres": ["postgres"],
    "data-handler": ["data-handler"],
    "model-server": ["sklearn-iris", "files"],
}
"""The folders of the images, each with the Deployments that it runs in."""


def set_up(stage: Stage) -> None:
    _bring_images(stage)
    _install_product(stage)
    stage.type("kubectl apply -f examples/namespaces.yaml")
    _make_secrets(stage)
    remove_runs(stage)
    stage.type("kubectl apply " + " ".join(f"-f examples/{name}.yaml" for name in MANIFESTS[1:]))
    for folder, deployments in IMAGES.items():
        for deployment in deployments:
            _replace_if_older(stage, deployment, image=_image_id(stage, f"localhost/inferrun-examples/{folder}:dev"))
    stage.type(f"kubectl rollout status -n {runs.NAMESPACE} deployment -l example --timeout=180s", within=200)


def take_down(stage: Stage) -> None:
    """The runs first, while somebody is there who takes their schedules along."""
    if stage.works("kubectl get crd inferenceruns.ai.krateo.io"):
        remove_runs(stage)
    stage.type(f"helm uninstall inferrun -n {SYSTEM} --ignore-not-found --wait")
    stage.type(f"kubectl delete namespace {runs.NAMESPACE} demo-secrets {SYSTEM} --ignore-not-found", within=180)
    stage.say("The resource definitions stay, as Helm leaves them; what else the cluster holds was not touched.")


def remove_runs(stage: Stage) -> None:
    """What an earlier demo left, also one that was interrupted; the copied Secret, so that scene 1 has its problem again."""
    stage.read(
        "kubectl delete --ignore-not-found --wait " + " ".join(f"-f examples/{name}.yaml" for name in RUN_MANIFESTS)
    )
    submitted = [name for name in stage.read(_NAMES).split() if "/iris-from-" in name]
    if submitted:
        stage.read(f"kubectl delete -n {runs.NAMESPACE} {' '.join(submitted)}")
    stage.read(f"kubectl delete secret {ENDPOINT} -n {runs.NAMESPACE} --ignore-not-found")


_NAMES = f"kubectl get inferenceruns -n {runs.NAMESPACE} -o name"


def leave_as_scene_1_does(stage: Stage) -> None:
    """The config is applied and the Secret is copied, so that any other scene can be played by itself."""
    stage.read("kubectl apply -f examples/iris-config.yaml")
    found = runs.get(stage, "secret", ENDPOINT, namespace="demo-secrets")
    if found is None:
        raise BrokenPromise("the world is not set up: play the whole demo first")
    _apply_secret(stage, ENDPOINT, runs.NAMESPACE, data=found["data"])


def _bring_images(stage: Stage) -> None:
    context = stage.environment.get("INFERRUN_CONTEXT", "")
    if context and not context.startswith("kind-"):
        stage.say(f"{context} is a cluster of yours: it must find the images by the names that stand in the manifests.")
        return
    for folder in IMAGES:
        command = f"python3 -m tools.devcluster image localhost/inferrun-examples/{folder}:dev examples/{folder}"
        stage.type(command, within=1800)


def _image_id(stage: Stage, image: str) -> str:
    """What stands behind an image's name, as far as this machine knows."""
    inspect = f"buildah inspect --type image --format '{{{{.FromImageID}}}}' {image}"
    return stage.read(inspect).strip()[:12] if stage.works(inspect) else ""


def _replace_if_older(stage: Stage, deployment: str, *, image: str) -> None:
    """Pods of an older image of the same name are replaced; which one they have is written on their Deployment."""
    found = runs.get(stage, "deployment", deployment) or {}
    known = found["metadata"].get("annotations", {}).get(IMAGE_ID, image)
    if known != image:
        stage.read(f"kubectl rollout restart deployment {deployment} -n {runs.NAMESPACE}")
    stage.read(f"kubectl annotate deployment {deployment} -n {runs.NAMESPACE} --overwrite {IMAGE_ID}={image}")


def _install_product(stage: Stage) -> None:
    temporal = {
        "address": stage.environment["TEMPORAL_ADDRESS"],
        "namespace": stage.environment["TEMPORAL_NAMESPACE"],
        "uiUrl": stage.environment["TEMPORAL_UI_URL"],
    }
    values = " ".join(f"--set temporal.{key}={value}" for key, value in temporal.items())
    if image := _image_id(stage, "localhost/inferrun/control:dev"):
        values += f" --set-string podAnnotations.{IMAGE_ID}={image}"
    # Helm installs definitions once and leaves older ones as they are.
    stage.type("kubectl apply --server-side --force-conflicts -f deploy/helm/inferrun/crds")
    stage.type(
        f"helm upgrade --install inferrun deploy/helm/inferrun -n {SYSTEM} --create-namespace {values}"
        " --hide-notes --wait --timeout 3m",
        within=200,
    )


def _make_secrets(stage: Stage) -> None:
    """A password and a token that nobody chose; what is there stays, since table and handler know it from their start."""
    for name, key in (("postgres", "password"), ("data-handler", "token")):
        if runs.get(stage, "secret", name) is None:
            _apply_secret(stage, name, runs.NAMESPACE, stringData={key: secrets.token_hex(16)})
    handler = runs.get(stage, "secret", "data-handler") or {}
    url = base64.b64encode(HANDLER_URL.encode()).decode()
    _apply_secret(stage, ENDPOINT, "demo-secrets", data={"server-url": url, "token": handler["data"]["token"]})
    stage.say(f"\n  Secrets: postgres, data-handler in {runs.NAMESPACE}; {ENDPOINT} in demo-secrets")


def _apply_secret(stage: Stage, name: str, namespace: str, **values: dict[str, str]) -> None:
    """By standard input: what is secret stands in no command line."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, **values}
    stage.read("kubectl apply -f -", given=json.dumps(secret))
