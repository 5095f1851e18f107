"""Uses what a person has already: a cluster named by INFERRUN_CONTEXT, a Temporal server named by TEMPORAL_ADDRESS.

Neither is ever guessed: a kubeconfig that lies around or a server that happens to listen is left alone. Nothing is started;
it is only checked that they answer.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import binaries
from .commands import run
from .handover import own_values, write_handover
from .layout import ADDRESS, PORTS, Layout
from .narration import say
from .parts import TEMPORAL_NAMESPACE
from .problem import Problem

OWN_TEMPORAL = f"{ADDRESS}:{PORTS.temporal}"
PROGRAMS = (("kubectl", "kubernetes"), ("helm", "kubernetes"), ("temporal", "temporal"))


@dataclass(frozen=True)
class Named:
    """What the person named; an empty string is nothing."""

    context: str
    temporal: str
    namespace: str
    ui: str


def named(environment: Mapping[str, str] = os.environ) -> Named:
    """Our own address may stand in the environment of somebody who reads `.devcluster/env` into the shell: beside our own
    cluster it names nothing."""
    context, address = environment.get("INFERRUN_CONTEXT", ""), environment.get("TEMPORAL_ADDRESS", "")
    if address == OWN_TEMPORAL and not context:
        return Named("", "", TEMPORAL_NAMESPACE, "")
    return Named(
        context=context,
        temporal=address,
        namespace=environment.get("TEMPORAL_NAMESPACE", "") or TEMPORAL_NAMESPACE,
        ui=environment.get("TEMPORAL_UI_URL", ""),
    )


def host_and_port(address: str) -> tuple[str, int]:
    """`temporal.example:7233` in its two parts."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise Problem(f"TEMPORAL_ADDRESS is {address!r}", cure="name it as host:port, such as temporal.example:7233")
    return host.strip("[]"), int(port)


def check_temporal(given: Named) -> None:
    """Whether it answers; Pods must reach it too, which an address on loopback rules out."""
    host, port = host_and_port(given.temporal)
    if host == "localhost" or host.startswith("127.") or host == "::1":
        raise Problem(
            f"TEMPORAL_ADDRESS is {given.temporal}, which Pods cannot reach",
            cure="unset TEMPORAL_ADDRESS to get a server of the cluster's own, or name an address that Pods reach",
        )
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise Problem(
            f"no Temporal server answers at {given.temporal} ({error})", cure="start it, or unset TEMPORAL_ADDRESS"
        ) from error


def temporal_values(given: Named) -> dict[str, str]:
    host, _ = host_and_port(given.temporal)
    return {
        "TEMPORAL_ADDRESS": given.temporal,
        "TEMPORAL_NAMESPACE": given.namespace,
        "TEMPORAL_UI_URL": given.ui or f"http://{host}:{PORTS.temporal_ui}",
    }


def use_cluster(given: Named, layout: Layout) -> None:
    """Write the handover for a cluster and a Temporal server that somebody else runs."""
    if not given.temporal:
        raise Problem(
            f"INFERRUN_CONTEXT names the cluster {given.context}, but no Temporal server is named",
            cure="set TEMPORAL_ADDRESS to one that the cluster's Pods reach",
        )
    check_temporal(given)
    _link_programs(layout)
    kubectl = layout.programs / "kubectl"
    settings = run(
        [kubectl, "config", "view", "--minify", "--flatten", "--raw", f"--context={given.context}"],
        cure="kubectl config get-contexts lists the names there are",
    )
    layout.kubeconfig.touch(mode=0o600)
    layout.kubeconfig.write_text(settings)
    run(
        [kubectl, "--kubeconfig", layout.kubeconfig, "get", "--raw", "/readyz", "--request-timeout=10s"],
        cure=f"the cluster of context {given.context} must answer",
    )
    write_handover(layout, values={**own_values(layout), **temporal_values(given)})
    say(f"using the cluster of context {given.context} and the Temporal server at {given.temporal}")


def _link_programs(layout: Layout) -> None:
    """The person's own programs where there are some; what is missing is built."""
    found = {name: path for name, _ in PROGRAMS if (path := on_path(name, layout))}
    parts = tuple(
        part for part in binaries.PARTS if any(name not in found and needs == part.name for name, needs in PROGRAMS)
    )
    binaries.build_missing(parts=parts, layout=layout)
    binaries.link_programs(parts=parts, layout=layout, others=found)


def own_temporal_program(layout: Layout) -> dict[str, Path]:
    """A `temporal` on PATH is used instead of building one."""
    path = on_path("temporal", layout)
    return {"temporal": path} if path else {}


def on_path(name: str, layout: Layout) -> Path | None:
    """The person's own program; one that we built and that was put on PATH is none."""
    found = shutil.which(name)
    if found is None or Path(found).resolve().is_relative_to(layout.cache.resolve()):
        return None
    return Path(found).absolute()
