"""The bridge that the node and its Pods share, the rules around it, and taking all of it away again.

Everything has a name of ours or is one of Kubernetes' own chains, so that taking away needs no memory of what was made.
"""

import shlex
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from .commands import run, succeeds
from .layout import ADDRESS, BRIDGE, POD_NETWORK, PORTS
from .problem import Problem

COMMENT = "inferrun-devcluster"
TEMPORAL = ("-d", ADDRESS, "-p", "tcp", "--dport", str(PORTS.temporal))
TO_TEMPORAL = ("-j", "DNAT", "--to-destination", f"127.0.0.1:{PORTS.temporal}")
# (table, chain, match and target)
RULES = (
    # Let Pods out and through where a firewall's default (Docker's, for one) is to drop.
    ("filter", "FORWARD", ("-i", BRIDGE, "-j", "ACCEPT")),
    ("filter", "FORWARD", ("-o", BRIDGE, "-j", "ACCEPT")),
    ("nat", "POSTROUTING", ("-s", POD_NETWORK, "!", "-d", POD_NETWORK, "-j", "MASQUERADE")),
    # Temporal listens on loopback; Pods and this machine reach it on the bridge's address.
    ("nat", "PREROUTING", ("-i", BRIDGE, *TEMPORAL, *TO_TEMPORAL)),
    ("nat", "OUTPUT", (*TEMPORAL, *TO_TEMPORAL)),
    # What route_localnet would open beside that stays shut.
    ("filter", "INPUT", ("-i", BRIDGE, "-d", "127.0.0.0/8", "-m", "conntrack", "!", "--ctstate", "DNAT", "-j", "DROP")),
)
KERNEL_SETTINGS = (
    ("net/ipv4/ip_forward", "1"),
    # Without it the answer of a Pod behind a Service goes straight over the bridge, from an address nobody asked.
    ("net/bridge/bridge-nf-call-iptables", "1"),
    (f"net/ipv4/conf/{BRIDGE}/route_localnet", "1"),
)


def make_network() -> None:
    """Make the bridge before any Pod runs: the API server, DNS and Temporal listen on its address."""
    succeeds(["modprobe", "br_netfilter"])
    if not has_bridge():
        run(
            ["ip", "link", "add", BRIDGE, "type", "bridge"],
            cure="the kernel must allow bridges; see `ip link add` above",
        )
    run(["ip", "address", "replace", f"{ADDRESS}/{POD_NETWORK.partition('/')[2]}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    for setting, value in KERNEL_SETTINGS:
        path = Path("/proc/sys") / setting
        if not path.exists():
            raise Problem(f"the kernel lacks {setting}", cure="load the module br_netfilter")
        if path.read_text().strip() != value:
            path.write_text(value)
    for table, chain, words in RULES:
        rule = [*words, "-m", "comment", "--comment", COMMENT]
        if not succeeds(["iptables", "-w", "-t", table, "-C", chain, *rule]):
            run(["iptables", "-w", "-t", table, "-I", chain, *rule], cure="iptables must work on this machine")


def has_bridge() -> bool:
    return succeeds(["ip", "link", "show", "dev", BRIDGE])


def is_ours(rule: str) -> bool:
    """Whether a line of `iptables -S` is a rule of this cluster: ours by comment, or one that leads to Kubernetes' chains."""
    words = rule.split()
    return rule.startswith("-A ") and (COMMENT in words or any(word.startswith("KUBE-") for word in words[2:]))


def removal(listed: Iterable[str]) -> list[list[str]]:
    """The iptables commands that take away what `iptables -S` lists of this cluster: rules, then chains once empty."""
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
            for words in removal(run(["iptables", "-w", "-t", table, "-S"]).splitlines()):
                succeeds(["iptables", "-w", "-t", table, *words])
    if has_bridge():
        run(["ip", "link", "delete", BRIDGE])


def is_free(address: str, port: int, *, kind: socket.SocketKind = socket.SOCK_STREAM) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def need_free(part: str, address: str, port: int) -> None:
    if not is_free(address, port):
        raise Problem(
            f"port {port} on {address}, which {part} needs, is taken by {holder(port)}",
            cure="end that program and start again",
        )


def holder(port: int) -> str:
    """Who listens on a port, as `ss` tells it."""
    if shutil.which("ss") is None:
        return "another program"
    listed = run(["ss", "-Hltnp", f"sport = :{port}"]).strip()
    _, found, users = listed.partition("users:((")
    return users.partition("))")[0].replace('"', "") if found else "another program"
