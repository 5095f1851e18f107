"""Creates and removes the bridge that the node and its Pods share, and the network rules around it.

Everything has a recognisable name or is one of Kubernetes' own chains, so removal does not depend
on stored state.
"""

import shlex
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from .commands import run, succeeds
from .errors import DevClusterError
from .layout import ADDRESS, BRIDGE, POD_NETWORK, PORTS

COMMENT = "inferrun-devcluster"
TEMPORAL = ("-d", ADDRESS, "-p", "tcp", "--dport", str(PORTS.temporal))
TO_TEMPORAL = ("-j", "DNAT", "--to-destination", f"127.0.0.1:{PORTS.temporal}")
# (table, chain, match and target)
RULES = (
    # Allow Pod traffic even if the default policy is to drop it, as with Docker's firewall rules.
    ("filter", "FORWARD", ("-i", BRIDGE, "-j", "ACCEPT")),
    ("filter", "FORWARD", ("-o", BRIDGE, "-j", "ACCEPT")),
    ("nat", "POSTROUTING", ("-s", POD_NETWORK, "!", "-d", POD_NETWORK, "-j", "MASQUERADE")),
    # Temporal listens on loopback; Pods and this machine reach it at the bridge's address.
    ("nat", "PREROUTING", ("-i", BRIDGE, *TEMPORAL, *TO_TEMPORAL)),
    ("nat", "OUTPUT", (*TEMPORAL, *TO_TEMPORAL)),
    # Block everything else that route_localnet would allow.
    (
        "filter",
        "INPUT",
        (
            "-i",
            BRIDGE,
            "-d",
            "127.0.0.0/8",
            "-m",
            "conntrack",
            "!",
            "--ctstate",
            "DNAT",
            "-j",
            "DROP",
        ),
    ),
)
KERNEL_SETTINGS = (
    ("net/ipv4/ip_forward", "1"),
    # Otherwise replies from a Pod behind a Service bypass NAT and arrive from the Pod's address
    # instead of the Service's.
    ("net/bridge/bridge-nf-call-iptables", "1"),
    (f"net/ipv4/conf/{BRIDGE}/route_localnet", "1"),
)


def create_network() -> None:
    """Create the bridge before any Pod runs, because the API server, DNS and Temporal use its
    address."""
    succeeds(["modprobe", "br_netfilter"])
    if not has_bridge():
        run(
            ["ip", "link", "add", BRIDGE, "type", "bridge"],
            fix="the kernel must support bridges (module bridge)",
        )
    run(["ip", "address", "replace", f"{ADDRESS}/{POD_NETWORK.partition('/')[2]}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    for setting, value in KERNEL_SETTINGS:
        path = Path("/proc/sys") / setting
        if not path.exists():
            raise DevClusterError(
                f"the kernel setting {setting} does not exist", fix="modprobe br_netfilter"
            )
        if path.read_text().strip() != value:
            path.write_text(value)
    for table, chain, words in RULES:
        rule = [*words, "-m", "comment", "--comment", COMMENT]
        if not succeeds(["iptables", "-w", "-t", table, "-C", chain, *rule]):
            run(
                ["iptables", "-w", "-t", table, "-I", chain, *rule],
                fix="check that `iptables -S` works",
            )


def has_bridge() -> bool:
    return succeeds(["ip", "link", "show", "dev", BRIDGE])


def is_ours(rule: str) -> bool:
    """Whether a line of `iptables -S` belongs to this cluster: it has our comment or jumps to one
    of Kubernetes' chains."""
    words = rule.split()
    return rule.startswith("-A ") and (
        COMMENT in words or any(word.startswith("KUBE-") for word in words[2:])
    )


def removal_commands(listed: Iterable[str]) -> list[list[str]]:
    """The iptables arguments that remove this cluster's part of an `iptables -S` listing: rules
    first, then the empty chains."""
    lines = list(listed)
    chains = [line.split()[1] for line in lines if line.startswith("-N KUBE-")]
    inside = tuple(f"-A {chain} " for chain in chains)
    rules = [line for line in lines if is_ours(line) and not line.startswith(inside)]
    return (
        [["-D", *shlex.split(line)[1:]] for line in rules]
        + [["-F", chain] for chain in chains]
        + [["-X", chain] for chain in chains]
    )


def remove_network() -> None:
    if shutil.which("iptables") is not None:
        for table in ("filter", "nat", "mangle"):
            for words in removal_commands(run(["iptables", "-w", "-t", table, "-S"]).splitlines()):
                succeeds(["iptables", "-w", "-t", table, *words])
    if has_bridge():
        run(["ip", "link", "delete", BRIDGE])


def is_free(address: str, port: int, *, kind: socket.SocketKind = socket.SOCK_STREAM) -> bool:
    """Whether a server could listen on this address."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def require_free(component: str, address: str, port: int) -> None:
    if not is_free(address, port):
        raise DevClusterError(
            f"port {port} on {address}, required by {component}, is in use by {listener(port)}",
            fix="stop that program and try again",
        )


def listener(port: int) -> str:
    """The program that listens on a port, according to `ss`."""
    if shutil.which("ss") is None:
        return "another program"
    listed = run(["ss", "-Hltnp", f"sport = :{port}"]).strip()
    _, found, users = listed.partition("users:((")
    return users.partition("))")[0].replace('"', "") if found else "another program"
