"""Paths, addresses and ports; no other module defines any.

There is one cluster per machine, because its bridge, network rules and cgroups are machine-wide.
Its data is stored outside of the checkout, so that it can still be found and removed after the
checkout has been deleted.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent

BRIDGE = "inferrun0"
ADDRESS = "10.88.0.1"
POD_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
NODE = "devnode"
DOMAIN = "cluster.local"
CGROUP = "inferrun-devcluster"


@dataclass(frozen=True)
class Ports:
    """Listening ports. Except for DNS and Temporal they are not the usual ones, in case another
    Kubernetes or etcd is running."""

    api: int = 16443
    etcd: int = 23790
    etcd_peer: int = 23800
    controller_manager: int = 20257
    scheduler: int = 20259
    kubelet: int = 20250
    kubelet_health: int = 20248
    proxy_health: int = 20256
    proxy_metrics: int = 20249
    dns: int = 53
    dns_health: int = 20053
    temporal: int = 7233
    temporal_ui: int = 8233
    temporal_metrics: int = 27233


PORTS = Ports()


@dataclass(frozen=True)
class Layout:
    """The directories of the cluster (`state`, `run`), of downloads and builds (`cache`) and of one
    checkout."""

    checkout: Path
    state: Path
    run: Path
    cache: Path

    @property
    def client_dir(self) -> Path:
        """What clients of the cluster need: kubeconfig, env file, links to the programs."""
        return self.checkout / ".devcluster"

    @property
    def kubeconfig(self) -> Path:
        return self.client_dir / "kubeconfig"

    @property
    def env(self) -> Path:
        return self.client_dir / "env"

    @property
    def programs(self) -> Path:
        return self.client_dir / "bin"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def certificates(self) -> Path:
        return self.state / "cluster" / "certificates"

    @property
    def config(self) -> Path:
        return self.state / "cluster" / "config"

    @property
    def cluster(self) -> Path:
        """Everything that is deleted with the cluster."""
        return self.state / "cluster"

    @property
    def containerd_root(self) -> Path:
        """Kept when the cluster is deleted, so that images need not be imported again."""
        return self.state / "containerd"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def docker(self) -> Path:
        """Data of the Docker engine for tests; kept, so that images need not be loaded again."""
        return self.state / "docker"

    @property
    def docker_run(self) -> Path:
        return self.run / "docker"

    @property
    def process_records(self) -> Path:
        """One file per process that this tooling started."""
        return self.state / "processes"

    @property
    def owner(self) -> Path:
        return self.state / "owner.json"

    @property
    def shutdown_marker(self) -> Path:
        """Exists while the cluster is being shut down; if it exists at startup, the shutdown was
        interrupted."""
        return self.state / "ending"

    @property
    def volumes(self) -> Path:
        return self.cluster / "volumes"


def layout_of(checkout: Path = CHECKOUT) -> Layout:
    """The layout for this machine's own cluster."""
    return Layout(
        checkout=checkout,
        state=Path("/var/lib/inferrun-devcluster"),
        run=Path("/run/inferrun-devcluster"),
        cache=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inferrun",
    )


def unprivileged(layout: Layout) -> Layout:
    """The layout for processes beside an existing cluster: everything below the checkout, no root
    required."""
    return replace(
        layout, state=layout.client_dir / "state", run=layout.client_dir / "state" / "run"
    )


LAYOUT = layout_of()
