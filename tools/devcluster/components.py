"""The cluster's components: the command, configuration and readiness probe of each.

Pure values: nothing here starts anything. COMPONENTS lists them in the order in which they are
started.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import binaries
from .certificates import kubeconfig
from .layout import (
    ADDRESS,
    BRIDGE,
    CGROUP,
    DOMAIN,
    LAYOUT,
    NODE,
    POD_NETWORK,
    PORTS,
    SERVICE_NETWORK,
    Layout,
)
from .packages import CNI_PLUGINS
from .probes import accepts_connections, http_ok, https_ok

PAUSE_IMAGE = "localhost/inferrun/pause:dev"
TEMPORAL_NAMESPACE = "default"
TEMPORAL_UI = f"http://127.0.0.1:{PORTS.temporal_ui}"

GO_RUNTIME = {"GOGC": "400", "GOMEMLIMIT": "4GiB"}
"""Environment of the servers, which are Go programs. Their heaps are so small here that Go would
collect garbage many times per second: a third of the API server's CPU time."""


@dataclass(frozen=True)
class Component:
    """One process. Before it starts, the addresses in `listens` must be free, and `files` are
    written."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    listens: tuple[tuple[str, int], ...] = ()
    files: tuple[tuple[Path, str], ...] = ()
    folders: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=lambda: GO_RUNTIME)
    seconds: float = 60

    def fingerprint(self) -> str:
        """A hash of the program, its arguments and its files: if it changes, the component must be
        restarted."""
        program = Path(shutil.which(self.command[0]) or self.command[0]).resolve()
        text = repr((program, self.command, self.files, sorted(self.environment.items())))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flags(**flags: object) -> tuple[str, ...]:
    """`bind_address="127.0.0.1"` becomes `--bind-address=127.0.0.1`."""
    return tuple(f"--{name.replace('_', '-')}={value}" for name, value in flags.items())


def etcd(layout: Layout) -> Component:
    client, peer = f"http://127.0.0.1:{PORTS.etcd}", f"http://127.0.0.1:{PORTS.etcd_peer}"
    data = layout.cluster / "etcd"
    flags = _flags(
        name="devcluster",
        data_dir=data,
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"devcluster={peer}",
        auto_compaction_retention="1h",
        quota_backend_bytes=4 * 1024**3,
        log_level="warn",
        logger="zap",
    )
    return Component(
        name="etcd",
        command=("etcd", *flags),
        ready=http_ok(f"{client}/health"),
        listens=(("127.0.0.1", PORTS.etcd), ("127.0.0.1", PORTS.etcd_peer)),
        folders=(data,),
    )


def api_server(layout: Layout) -> Component:
    keys = layout.certificates
    flags = _flags(
        advertise_address=ADDRESS,
        bind_address=ADDRESS,
        secure_port=PORTS.api,
        etcd_servers=f"http://127.0.0.1:{PORTS.etcd}",
        authorization_mode="Node,RBAC",
        allow_privileged="true",
        anonymous_auth="false",
        profiling="false",
        enable_admission_plugins="NodeRestriction",
        service_cluster_ip_range=SERVICE_NETWORK,
        kubelet_preferred_address_types="InternalIP",
        client_ca_file=keys / "ca.crt",
        tls_cert_file=keys / "api.crt",
        tls_private_key_file=keys / "api.key",
        kubelet_certificate_authority=keys / "ca.crt",
        kubelet_client_certificate=keys / "api-to-kubelet.crt",
        kubelet_client_key=keys / "api-to-kubelet.key",
        # Only used for aggregated API servers, but the scheduler and the controllers expect it to
        # be set.
        requestheader_client_ca_file=keys / "ca.crt",
        requestheader_allowed_names="front-proxy-client",
        requestheader_username_headers="X-Remote-User",
        requestheader_group_headers="X-Remote-Group",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        # Both need a newer etcd than Debian's; if enabled, they log an error every few minutes.
        feature_gates="SizeBasedListCostEstimate=false,DetectCacheInconsistency=false",
        service_account_issuer=f"https://kubernetes.default.svc.{DOMAIN}",
        service_account_key_file=keys / "accounts.pub",
        service_account_signing_key_file=keys / "accounts.key",
    )
    return Component(
        name="kube-apiserver",
        command=(str(layout.programs / "kube-apiserver"), *flags),
        ready=https_ok(f"https://{ADDRESS}:{PORTS.api}/readyz", certificates=keys),
        listens=((ADDRESS, PORTS.api),),
        seconds=90,
    )


def controller_manager(layout: Layout) -> Component:
    keys, config = layout.certificates, layout.config / "controller-manager.kubeconfig"
    flags = _flags(
        kubeconfig=config,
        authentication_kubeconfig=config,
        authorization_kubeconfig=config,
        bind_address="127.0.0.1",
        secure_port=PORTS.controller_manager,
        leader_elect="false",
        use_service_account_credentials="true",
        root_ca_file=keys / "ca.crt",
        service_account_private_key_file=keys / "accounts.key",
        cluster_signing_cert_file=keys / "ca.crt",
        cluster_signing_key_file=keys / "ca.key",
    )
    return Component(
        name="kube-controller-manager",
        command=(str(layout.programs / "kube-controller-manager"), *flags),
        ready=https_ok(
            f"https://127.0.0.1:{PORTS.controller_manager}/healthz", certificates=keys, verify=False
        ),
        listens=(("127.0.0.1", PORTS.controller_manager),),
        files=((config, kubeconfig(keys, "controller-manager")),),
    )


def scheduler(layout: Layout) -> Component:
    keys, config = layout.certificates, layout.config / "scheduler.kubeconfig"
    flags = _flags(
        kubeconfig=config,
        authentication_kubeconfig=config,
        authorization_kubeconfig=config,
        bind_address="127.0.0.1",
        secure_port=PORTS.scheduler,
        leader_elect="false",
    )
    return Component(
        name="kube-scheduler",
        command=(str(layout.programs / "kube-scheduler"), *flags),
        ready=https_ok(
            f"https://127.0.0.1:{PORTS.scheduler}/healthz", certificates=keys, verify=False
        ),
        listens=(("127.0.0.1", PORTS.scheduler),),
        files=((config, kubeconfig(keys, "scheduler")),),
    )


def containerd_config(layout: Layout, *, snapshotter: str) -> str:
    # restrict_oom_score_adj: a confined machine is not allowed to lower a container's score.
    # netns_mounts_under_state_dir: all mounts that remain after a crash are below one directory.
    return f"""\
version = 2
root = "{layout.containerd_root}"
state = "{layout.run / "containerd"}"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{layout.containerd_socket}"

[ttrpc]
  address = "{layout.containerd_socket}.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{layout.run / "runc"}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{layout.config / "cni"}"
"""


def pod_network_config(layout: Layout) -> str:
    return json.dumps(
        {
            "cniVersion": "0.4.0",
            "name": "inferrun-devcluster",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": BRIDGE,
                    "isGateway": True,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(layout.cluster / "addresses"),
                        "ranges": [
                            [{"subnet": POD_NETWORK, "rangeStart": "10.88.1.1", "gateway": ADDRESS}]
                        ],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        },
        indent=2,
    )


def snapshotter_for(filesystem: str) -> str:
    """overlayfs cannot be stacked on itself: if this machine is itself a container, layers are
    copied instead."""
    return "native" if filesystem == "overlay" else "overlayfs"


def filesystem_of(folder: Path, mounts: str) -> str:
    """The type of the file system that contains a directory, from the text of /proc/mounts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        _, point, type_, *_ = line.split()
        inside = point == "/" or folder == Path(point) or Path(point) in folder.parents
        if inside and len(point) >= len(best):
            best, kind = point, type_
    return kind


def containerd(layout: Layout) -> Component:
    config = layout.config / "containerd.toml"
    snapshotter = snapshotter_for(filesystem_of(layout.state, Path("/proc/mounts").read_text()))
    return Component(
        name="containerd",
        command=("containerd", "--config", str(config), "--log-level", "warn"),
        ready=accepts_connections(layout.containerd_socket),
        files=(
            (config, containerd_config(layout, snapshotter=snapshotter)),
            (layout.config / "cni" / "10-bridge.conflist", pod_network_config(layout)),
        ),
        folders=(layout.containerd_root, layout.run),
    )


def kubelet_config(layout: Layout) -> str:
    keys = layout.certificates
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            "port": PORTS.kubelet,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": PORTS.kubelet_health,
            "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
            "clusterDNS": [ADDRESS],
            "clusterDomain": DOMAIN,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "maxPods": 110,
            "podPidsLimit": 4096,
            "protectKernelDefaults": False,
            "podLogsDir": str(layout.cluster / "pod-logs"),
            "staticPodPath": "",
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            # A developer's disk is often nearly full; evict Pods only if it really is.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "500Mi",
                "imagefs.available": "500Mi",
            },
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(keys / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(keys / "kubelet.crt"),
            "tlsPrivateKeyFile": str(keys / "kubelet.key"),
        },
        indent=2,
    )


def kubelet(layout: Layout) -> Component:
    settings, config = layout.config / "kubelet.json", layout.config / "kubelet.kubeconfig"
    flags = _flags(
        config=settings,
        kubeconfig=config,
        hostname_override=NODE,
        node_ip=ADDRESS,
        root_dir=layout.cluster / "kubelet",
        cert_dir=layout.cluster / "kubelet" / "pki",
    )
    return Component(
        name="kubelet",
        command=(str(layout.programs / "kubelet"), *flags),
        ready=http_ok(f"http://127.0.0.1:{PORTS.kubelet_health}/healthz"),
        listens=((ADDRESS, PORTS.kubelet), ("127.0.0.1", PORTS.kubelet_health)),
        files=(
            (settings, kubelet_config(layout)),
            (config, kubeconfig(layout.certificates, "node")),
        ),
        folders=(layout.cluster / "kubelet",),
    )


def kube_proxy(layout: Layout) -> Component:
    settings, config = layout.config / "proxy.json", layout.config / "proxy.kubeconfig"
    content = json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": POD_NETWORK,
            "hostnameOverride": NODE,
            "healthzBindAddress": f"127.0.0.1:{PORTS.proxy_health}",
            "metricsBindAddress": f"127.0.0.1:{PORTS.proxy_metrics}",
            "clientConnection": {"kubeconfig": str(config)},
            # 0: do not change the machine's limit of tracked connections.
            "conntrack": {"maxPerCore": 0, "min": 0},
            "iptables": {"minSyncPeriod": "0s"},
            "nodePortAddresses": [f"{ADDRESS}/32"],
        },
        indent=2,
    )
    return Component(
        name="kube-proxy",
        command=(str(layout.programs / "kube-proxy"), *_flags(config=settings)),
        ready=http_ok(f"http://127.0.0.1:{PORTS.proxy_health}/livez"),
        listens=(("127.0.0.1", PORTS.proxy_health), ("127.0.0.1", PORTS.proxy_metrics)),
        files=((settings, content), (config, kubeconfig(layout.certificates, "proxy"))),
    )


def corefile(layout: Layout, *, has_upstream: bool) -> str:
    forward = "    forward . /etc/resolv.conf\n" if has_upstream else ""
    return f"""\
.:{PORTS.dns} {{
    bind {ADDRESS}
    errors
    health 127.0.0.1:{PORTS.dns_health}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {layout.config / "dns.kubeconfig"}
        ttl 5
    }}
{forward}    cache 5
}}
"""


def coredns(layout: Layout) -> Component:
    config = layout.config / "Corefile"
    resolvers = Path("/etc/resolv.conf")
    has_upstream = resolvers.exists() and "nameserver" in resolvers.read_text()
    return Component(
        name="coredns",
        command=(str(layout.programs / "coredns"), "-conf", str(config)),
        ready=http_ok(f"http://127.0.0.1:{PORTS.dns_health}/health"),
        listens=((ADDRESS, PORTS.dns), ("127.0.0.1", PORTS.dns_health)),
        files=(
            (config, corefile(layout, has_upstream=has_upstream)),
            (layout.config / "dns.kubeconfig", kubeconfig(layout.certificates, "dns")),
        ),
    )


def temporal(layout: Layout) -> Component:
    """The development server works on loopback only, because its services connect to each other
    there; the network rules forward connections from the bridge's address. With a write-ahead log
    and synchronous=NORMAL it runs two to four times as many workflows per second, and loses nothing
    when it is killed."""
    data, older = layout.cluster / "temporal", layout.programs / "temporal"
    program = binaries.chosen_temporal(older, layout=layout)
    # neither reads that of the other
    database = data / ("temporal.db" if program == older else "temporal-next.db")
    command = (
        *(str(program), "server", "start-dev"),
        *_flags(
            port=PORTS.temporal, ui_port=PORTS.temporal_ui, metrics_port=PORTS.temporal_metrics
        ),
        *_flags(db_filename=database, log_level="warn"),
        *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
    )
    return Component(
        name="temporal",
        command=command,
        ready=http_ok(f"{TEMPORAL_UI}/api/v1/namespaces/{TEMPORAL_NAMESPACE}"),
        listens=tuple(
            ("127.0.0.1", port)
            for port in (PORTS.temporal, PORTS.temporal_ui, PORTS.temporal_metrics)
        ),
        folders=(data,),
        # Keeps it from reading the user's configuration file.
        environment=GO_RUNTIME
        | {"HOME": str(data), "TEMPORAL_ADDRESS": "", "TEMPORAL_NAMESPACE": ""},
    )


COMPONENTS: tuple[Callable[[Layout], Component], ...] = (
    etcd,
    containerd,
    api_server,
    controller_manager,
    scheduler,
    kubelet,
    kube_proxy,
    coredns,
    temporal,
)


def all_components(layout: Layout = LAYOUT) -> list[Component]:
    """Requires the cluster's certificates, because they are part of kubeconfigs."""
    return [component(layout) for component in COMPONENTS]
