"""A Kubernetes control plane and a Temporal server for one measurement: the real programs, on
loopback, in a temporary directory.

The programs are those of the development cluster, but there is no scheduler and no kubelet, so Jobs
and Pods are created and never start. Nothing else uses these servers, so nothing else is measured,
and the development cluster is neither slowed down nor changed.
"""

import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from campaigns.benchmarks.processes import (
    Launch,
    Process,
    free_port,
    listens,
    serve,
    serves_temporal,
)
from campaigns.benchmarks.temporal_postgresql import Database, temporal_database
from inferrun.temporal.connection import ATTRIBUTES
from tools.devcluster.binaries import chosen_temporal
from tools.devcluster.components import GO_RUNTIME

TOKEN = "benchmark"
"""A fixed token is sufficient for a server that listens on loopback for a few minutes."""

START_SECONDS = 240
"""A busy machine takes its time: nothing is measured before everything is ready."""


class MissingPrograms(Exception):
    """The development cluster has not been set up on this machine."""


@dataclass(frozen=True)
class ControlPlane:
    """The running servers and their addresses."""

    kubeconfig: Path
    temporal_address: str
    temporal_metrics: str
    """The URL of the Temporal server's metrics."""

    programs: tuple[Process, ...]
    folder: Path
    database: Database | None

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time that each server has used so far."""
        found = {program.name: program.cpu_seconds() for program in self.programs}
        return found | ({"postgresql": self.database.cpu_seconds()} if self.database else {})

    def stored_bytes(self) -> int:
        """What Temporal has stored."""
        if self.database:
            return self.database.stored_bytes()
        return sum(path.stat().st_size for path in self.folder.glob("temporal.db*"))


@contextmanager
def control_plane(
    folder: Path,
    *,
    binaries: Path,
    controller_requests: int = 20,
    postgresql: bool = False,
    newer_temporal: bool = False,
    memory_limit: str = GO_RUNTIME["GOMEMLIMIT"],
) -> Iterator[ControlPlane]:
    """Start the servers, with their data in `folder`, and stop them at the end of the block.

    With `postgresql`, Temporal is the deployed server on PostgreSQL rather than the development
    server; with `newer_temporal`, the development server is that whose workflows can be paused. A
    server that comes near to its `memory_limit` collects garbage all the time.
    `controller_requests` limits the requests per second of the controller manager; 20 is its
    default.
    """
    _check(binaries)
    environment = {**server_environment(folder), "GOMEMLIMIT": memory_limit}
    programs: list[Process] = []
    with ExitStack() as ends:

        def up(name: str, launch: Callable[[int], Launch]) -> int:
            program, port = serve(
                name, launch, logs=folder, environment=environment, seconds=START_SECONDS
            )
            ends.callback(program.stop)
            programs.append(program)
            return port

        metrics = 0

        database = ends.enter_context(temporal_database()) if postgresql else None

        def temporal_server(port: int) -> Launch:
            nonlocal metrics
            metrics = free_port()
            if database:
                return database.launch(folder, port, metrics)
            program = chosen_temporal(binaries / "temporal", is_newer=newer_temporal)
            return Launch(_temporal(folder, program, port, metrics), serves_temporal(port))

        temporal = up("temporal", temporal_server)
        etcd = up("etcd", lambda port: Launch(_etcd(folder, port, free_port()), listens(port)))
        _accounts_key(folder)
        api = up(
            "kube-apiserver",
            lambda port: Launch(_api_server(folder, binaries, port, etcd), _is_ready(folder, port)),
        )
        kubeconfig = _kubeconfig(folder, api)
        limits = [
            f"--kube-api-qps={controller_requests}",
            f"--kube-api-burst={controller_requests * 3 // 2}",
        ]

        def manager(port: int) -> Launch:
            return Launch(
                [*_controller_manager(folder, binaries, port, kubeconfig), *limits], listens(port)
            )

        up("kube-controller-manager", manager)
        yield ControlPlane(
            kubeconfig,
            f"127.0.0.1:{temporal}",
            f"http://127.0.0.1:{metrics}/metrics",
            tuple(programs),
            folder,
            database,
        )


def server_environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of a server."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **GO_RUNTIME}


def _check(binaries: Path) -> None:
    names = ("kube-apiserver", "kube-controller-manager", "temporal")
    missing = [name for name in names if not (binaries / name).exists()]
    missing += [] if shutil.which("etcd") else ["etcd"]
    if missing:
        raise MissingPrograms(
            f"{', '.join(missing)} not found; to install them, run `make cluster`"
        )


def _temporal(folder: Path, program: Path, port: int, metrics: int) -> list[str]:
    """The pragmas are those of the development cluster; without them, the server itself would be
    the bottleneck.

    The development server reads the registered search attributes from its database for every
    request, so that new ones are known at once. Here it caches them, as a deployed server does by
    default; ours are registered when it starts.
    """
    flags = [
        "--ip",
        "127.0.0.1",
        "--port",
        str(port),
        "--metrics-port",
        str(metrics),
        "--headless",
        "--log-level",
        "error",
    ]
    flags += ["--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=false"]
    for attribute in ATTRIBUTES:
        flags += ["--search-attribute", f"{attribute.name}=Keyword"]
    storage = ["--db-filename", str(folder / "temporal.db"), "--sqlite-pragma", "journal_mode=WAL"]
    return [
        str(program),
        "server",
        "start-dev",
        *flags,
        *storage,
        "--sqlite-pragma",
        "synchronous=NORMAL",
    ]


def _etcd(folder: Path, port: int, peer: int) -> list[str]:
    client, other = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
    return [
        "etcd",
        "--name=benchmark",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={other}",
        f"--initial-advertise-peer-urls={other}",
        f"--initial-cluster=benchmark={other}",
        "--log-level=error",
        "--logger=zap",
    ]


def _accounts_key(folder: Path) -> None:
    for command in (
        ["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-out", "accounts.key"],
        ["openssl", "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def _api_server(folder: Path, binaries: Path, port: int, etcd: int) -> list[str]:
    (folder / "tokens").write_text(f"{TOKEN},benchmark,benchmark,system:masters\n")
    return [
        str(binaries / "kube-apiserver"),
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--token-auth-file={folder / 'tokens'}",
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.97.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        # The API server does not accept a loopback address as the endpoint of its own Service.
        "--endpoint-reconciler-type=none",
        "--feature-gates=SizeBasedListCostEstimate=false",
    ]


def _controller_manager(folder: Path, binaries: Path, port: int, kubeconfig: Path) -> list[str]:
    return [
        str(binaries / "kube-controller-manager"),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--cert-dir={folder / 'certificates'}",
        "--leader-elect=false",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
    ]


def _kubeconfig(folder: Path, port: int) -> Path:
    """Write the kubeconfig as JSON, which is valid YAML."""
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(folder / "certificates" / "apiserver.crt"),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "benchmark",
        "contexts": [
            {"name": "benchmark", "context": {"cluster": "benchmark", "user": "benchmark"}}
        ],
        "clusters": [{"name": "benchmark", "cluster": cluster}],
        "users": [{"name": "benchmark", "user": {"token": TOKEN}}],
    }
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


def _is_ready(folder: Path, port: int) -> Callable[[], bool]:
    def condition() -> bool:
        certificate = folder / "certificates" / "apiserver.crt"
        if not certificate.exists():
            return False
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        try:
            tls = ssl.create_default_context(cafile=str(certificate))
            with urllib.request.urlopen(request, timeout=2, context=tls) as response:  # noqa: S310 -- an https URL on loopback
                return bool(response.status == 200)
        except (OSError, ssl.SSLError):
            return False

    return condition
