"""Uses an existing cluster (INFERRUN_CONTEXT) and Temporal server (TEMPORAL_ADDRESS) instead of
creating them.

Both are used only if they are configured explicitly; a kubeconfig or a server that happens to exist
is ignored. Nothing is compiled: kubectl and helm must be on PATH. For a kind cluster on Linux, a
Temporal development server is started if the temporal CLI is on PATH and no server is configured.
"""

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import kind, temporal_server
from .commands import run
from .components import TEMPORAL_NAMESPACE
from .console import info
from .env_file import POD_TEMPORAL_ADDRESS, own_values, write_env_file
from .errors import DevClusterError
from .layout import ADDRESS, PORTS, Layout, unprivileged

OWN_TEMPORAL = f"{ADDRESS}:{PORTS.temporal}"
REQUIRED_PROGRAMS = (
    ("kubectl", "https://kubernetes.io/docs/tasks/tools"),
    ("helm", "https://helm.sh/docs/intro/install"),
)
TEMPORAL_DOCS = "https://docs.temporal.io/cli"


@dataclass(frozen=True)
class Configured:
    """What the user configured; an empty string means nothing."""

    context: str
    temporal: str
    namespace: str
    ui: str


def from_environment(environment: Mapping[str, str] = os.environ) -> Configured:
    """Our own Temporal address is ignored unless a context is set: the user may have sourced
    `.devcluster/env`."""
    context = environment.get("INFERRUN_CONTEXT", "")
    address = environment.get("TEMPORAL_ADDRESS", "")
    if address == OWN_TEMPORAL and not context:
        return Configured("", "", TEMPORAL_NAMESPACE, "")
    return Configured(
        context=context,
        temporal=address,
        namespace=environment.get("TEMPORAL_NAMESPACE", "") or TEMPORAL_NAMESPACE,
        ui=environment.get("TEMPORAL_UI_URL", ""),
    )


def host_and_port(address: str) -> tuple[str, int]:
    """Split `temporal.example:7233`. Raises DevClusterError for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise DevClusterError(
            f"TEMPORAL_ADDRESS is {address!r}, expected host:port",
            fix="for example TEMPORAL_ADDRESS=temporal.example:7233",
        )
    return host.strip("[]"), int(port)


def check_temporal(configured: Configured) -> None:
    """Check that the server accepts connections at an address that Pods may reach, which rules out
    loopback."""
    host, port = host_and_port(configured.temporal)
    if host == "localhost" or host.startswith("127.") or host == "::1":
        raise DevClusterError(
            f"TEMPORAL_ADDRESS is {configured.temporal}, a loopback address, which Pods cannot reach",
            fix="unset TEMPORAL_ADDRESS to start a server automatically, or set it to an address that Pods can reach",
        )
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise DevClusterError(
            f"no Temporal server responds at {configured.temporal} ({error})",
            fix="start it, or unset TEMPORAL_ADDRESS",
        ) from error


def temporal_values(configured: Configured) -> dict[str, str]:
    host, _ = host_and_port(configured.temporal)
    return {
        "TEMPORAL_ADDRESS": configured.temporal,
        "TEMPORAL_NAMESPACE": configured.namespace,
        "TEMPORAL_UI_URL": configured.ui or f"http://{host}:{PORTS.temporal_ui}",
    }


def starts_temporal(configured: Configured, *, has_cli: bool, is_linux: bool) -> bool:
    """Whether to start a Temporal server; False means to use the configured one.

    Raises DevClusterError, with all choices, if there is neither.
    """
    if configured.temporal:
        return False
    can_start = kind.is_kind(configured.context) and is_linux
    if can_start and has_cli:
        return True
    choices = (
        "set TEMPORAL_ADDRESS=<host>:<port> of a Temporal server that the cluster's Pods can reach"
    )
    if can_start:
        choices += (
            f", or install the temporal CLI ({TEMPORAL_DOCS}) to have a development server started"
        )
    raise DevClusterError(
        f"no Temporal server is configured for the cluster of context {configured.context}",
        fix=choices,
    )


def attach(configured: Configured, layout: Layout) -> None:
    """Check that the cluster and the Temporal server respond, and write the env file."""
    found = find_programs(layout)
    start = starts_temporal(
        configured, has_cli="temporal" in found, is_linux=platform.system() == "Linux"
    )
    if not start:
        check_temporal(configured)
    _link_programs(found, layout)
    _write_kubeconfig(configured, layout)
    values = (
        temporal_server.start_for_kind(unprivileged(layout))
        if start
        else temporal_values(configured)
    )
    write_env_file(
        layout, values={**own_values(layout), **values, "INFERRUN_CONTEXT": configured.context}
    )
    pods = values.get(POD_TEMPORAL_ADDRESS, values["TEMPORAL_ADDRESS"])
    info(f"using the cluster of context {configured.context} and the Temporal server at {pods}")


def detach(layout: Layout) -> None:
    """Stop what `attach` started and remove the files it wrote; the cluster itself is not
    changed."""
    temporal_server.stop_for_kind(unprivileged(layout))
    for file in (layout.kubeconfig, layout.env):
        file.unlink(missing_ok=True)


def _write_kubeconfig(configured: Configured, layout: Layout) -> None:
    """Write the user's settings for this context, so that later commands do not depend on the
    current context."""
    settings = run(
        [
            "kubectl",
            "config",
            "view",
            "--minify",
            "--flatten",
            "--raw",
            f"--context={configured.context}",
        ],
        fix="`kubectl config get-contexts` lists the contexts",
    )
    layout.kubeconfig.touch(mode=0o600)
    layout.kubeconfig.write_text(settings)
    run(
        [
            "kubectl",
            "--kubeconfig",
            layout.kubeconfig,
            "get",
            "--raw",
            "/readyz",
            "--request-timeout=10s",
        ],
        fix=f"check that `kubectl --context {configured.context} get nodes` works",
    )


def find_programs(layout: Layout) -> dict[str, Path]:
    """The user's programs. Raises DevClusterError if a required one is missing."""
    names = [name for name, _ in REQUIRED_PROGRAMS]
    found = {name: path for name in (*names, "temporal") if (path := on_path(name, layout))}
    missing = [(name, docs) for name, docs in REQUIRED_PROGRAMS if name not in found]
    if missing:
        raise DevClusterError(
            f"not on PATH: {', '.join(name for name, _ in missing)}",
            fix=f"install {', '.join(f'{name} ({docs})' for name, docs in missing)}",
        )
    return found


def _link_programs(found: Mapping[str, Path], layout: Layout) -> None:
    """Make the checkout's program directory contain exactly these programs."""
    layout.programs.mkdir(parents=True, exist_ok=True)
    for old in layout.programs.iterdir():
        old.unlink()
    for name, path in found.items():
        (layout.programs / name).symlink_to(path)


def own_temporal_program(layout: Layout) -> dict[str, Path]:
    """A temporal CLI on PATH, which is used instead of compiling one."""
    path = on_path("temporal", layout)
    return {"temporal": path} if path else {}


def on_path(name: str, layout: Layout) -> Path | None:
    """The user's own program; programs that this tooling compiled or linked do not count."""
    folders = [
        folder
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        if Path(folder) != layout.programs
    ]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None or Path(found).resolve().is_relative_to(layout.cache.resolve()):
        return None
    return Path(found).absolute()
