"""Where everything lies and which addresses it uses: the only module that knows paths and ports.

There is one cluster per machine, because a bridge, a node's network rules and its control groups are the machine's. Its data
lies outside of any checkout, so that a checkout that is deleted while its cluster runs leaves nothing that cannot be found.
"""

import os
from dataclasses import dataclass
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
CONTROL_GROUP = "inferrun-devcluster"


@dataclass(frozen=True)
class Ports:
    """Listening ports. All but DNS and Temporal are off the usual ones: another Kubernetes or etcd may be on the machine."""

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
    """The folders of the machine's cluster (`state`, `run`), of the built things (`cache`) and of one checkout."""

    checkout: Path
    state: Path
    run: Path
    cache: Path

    @property
    def handover(self) -> Path:
        """What the checkout's users attach with: kubeconfig, env, links to the programs."""
        return self.checkout / ".devcluster"

    @property
    def kubeconfig(self) -> Path:
        return self.handover / "kubeconfig"

    @property
    def env(self) -> Path:
        return self.handover / "env"

    @property
    def programs(self) -> Path:
        return self.handover / "bin"

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
        """Everything that belongs to this one cluster and goes with it."""
        return self.state / "cluster"

    @property
    def containerd_root(self) -> Path:
        """Outlives a cluster: images that were brought onto the node once need not be imported again."""
        return self.state / "containerd"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def docker(self) -> Path:
        """The Docker engine of tests: its images outlive it."""
        return self.state / "docker"

    @property
    def docker_run(self) -> Path:
        return self.run / "docker"

    @property
    def records(self) -> Path:
        """One file per process that we started."""
        return self.state / "processes"

    @property
    def owner(self) -> Path:
        return self.state / "owner.json"

    @property
    def ending(self) -> Path:
        """There while a cluster is being ended."""
        return self.state / "ending"

    @property
    def volumes(self) -> Path:
        return self.cluster / "volumes"


def _cache_home(environment: dict[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def layout_of(checkout: Path = CHECKOUT) -> Layout:
    return Layout(
        checkout=checkout,
        state=Path("/var/lib/inferrun-devcluster"),
        run=Path("/run/inferrun-devcluster"),
        cache=_cache_home(dict(os.environ)) / "inferrun",
    )


LAYOUT = layout_of()
