"""Builds images with Docker and loads them into a kind cluster, and finds the address at which its
Pods reach this machine."""

import ipaddress
import os
import shutil
from pathlib import Path

from .commands import run
from .errors import DevClusterError

PREFIX = "kind-"
NETWORK = "kind"
"""The Docker network that kind attaches its nodes to by default."""


def is_kind(context: str) -> bool:
    """kind names the kubectl context of a cluster `kind-<cluster>`."""
    return context.startswith(PREFIX)


def cluster_name(context: str) -> str:
    if not is_kind(context):
        raise DevClusterError(
            f"cannot load images into the cluster of context {context}, because it is not a kind cluster",
            fix="push the images to a registry; see 'Your own cluster' in examples/README.md",
        )
    return context.removeprefix(PREFIX)


def check_context(context: str) -> None:
    """Check that images can be loaded into this cluster before spending time on building them."""
    cluster_name(context)
    require_programs()


def require_programs() -> None:
    missing = [name for name in ("docker", "kind") if shutil.which(name) is None]
    if missing:
        raise DevClusterError(
            f"not on PATH: {', '.join(missing)}",
            fix="install Docker (https://docs.docker.com) and kind (https://kind.sigs.k8s.io)",
        )


def build_command(name: str, *, folder: Path, dockerfile: Path, base: str) -> list[str]:
    """`docker build` of one image; an empty `base` means the Dockerfile's default."""
    command = ["docker", "build", "--quiet", "--tag", name, "--file", str(dockerfile)]
    if base:
        command += ["--build-arg", f"BASE={base}"]
    return [*command, str(folder)]


def load_command(name: str, *, context: str) -> list[str]:
    """kind skips images that all nodes already have."""
    return ["kind", "load", "docker-image", "--name", cluster_name(context), name]


def build(name: str, *, folder: Path, dockerfile: Path) -> None:
    base = os.environ.get("INFERRUN_BASE_IMAGE", "")
    # BuildKit: the Dockerfiles use cache mounts.
    run(
        build_command(name, folder=folder, dockerfile=dockerfile, base=base),
        extra_env={"DOCKER_BUILDKIT": "1"},
        timeout=1800,
        fix=f"see the output above; the build is {dockerfile}",
    )


def load(name: str, *, context: str) -> None:
    run(
        load_command(name, context=context),
        fix=f"check that `kind get nodes --name {cluster_name(context)}` lists nodes",
    )


def load_archive(archive: Path, *, context: str) -> None:
    require_programs()
    run(
        ["kind", "load", "image-archive", "--name", cluster_name(context), archive],
        fix="check that `kind get clusters` works",
    )


def image_id(name: str) -> str:
    """The id of an image in Docker; empty without the image or without Docker."""
    if shutil.which("docker") is None:
        return ""
    try:
        return run(["docker", "image", "inspect", "--format", "{{.Id}}", name]).strip()
    except DevClusterError:
        return ""


def gateways(listed: str) -> list[str]:
    """The IPv4 addresses in the space-separated output of `docker network inspect`."""
    found = []
    for word in listed.split():
        try:
            address = ipaddress.ip_address(word)
        except ValueError:
            continue
        if address.version == 4:
            found.append(word)
    return found


def host_address() -> str:
    """The address of this machine on kind's network; Pods reach servers that listen on it."""
    network = os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK") or NETWORK
    fix = "set TEMPORAL_ADDRESS to a Temporal server that the cluster's Pods can reach"
    template = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
    found = gateways(run(["docker", "network", "inspect", "--format", template, network], fix=fix))
    if not found:
        raise DevClusterError(f"the Docker network {network} has no IPv4 gateway", fix=fix)
    return found[0]
