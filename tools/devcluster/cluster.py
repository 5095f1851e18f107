"""Brings the cluster up and takes it down; both may be interrupted anywhere and started again.

up: only what is missing is made, only what does not run is started. A cluster that another checkout made and that still runs
is left alone; one whose processes are all gone is cleared away. down: ends the processes that were started, and only those.
"""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from . import archives, binaries, foreign, images, network, ownership, packages, remains, volumes
from .certificates import kubeconfig, make_certificates
from .commands import run
from .handover import own_values, write_handover
from .layout import ADDRESS, LAYOUT, NODE, SOURCES, Layout
from .narration import duration, say, step
from .parts import Part, all_parts
from .problem import Problem
from .processes import Records, start, stop, wait_ready, wait_until

NODE_READY_SECONDS = 90


def up(layout: Layout = LAYOUT) -> None:
    given = foreign.named()
    layout.handover.mkdir(exist_ok=True)
    if given.context:
        foreign.use_cluster(given, layout)
        return
    ownership.need_root(what="make cluster")
    began = time.monotonic()
    if given.temporal:
        foreign.check_temporal(given)
    with ownership.lock(layout):
        _say_what_comes(layout)
        _take_over(layout)
        _prepare(layout)
        for part in _configure(layout):
            if not (part.name == "temporal" and given.temporal):
                start_part(part, layout)
        _settle(layout)
        write_handover(layout, values=own_values(layout) | (foreign.temporal_values(given) if given.temporal else {}))
    say(f"cluster ready in {duration(time.monotonic() - began)}: . .devcluster/env && $INFERRUN_BIN/kubectl get nodes")


def down(layout: Layout = LAYOUT) -> None:
    ownership.need_root(what="make cluster-down")
    with ownership.lock(layout), step("end the cluster"):
        found = ownership.owner(layout)
        if found is not None and found != layout.checkout and running(layout):
            raise Problem(f"the cluster on this machine belongs to {found}", cure=f"make -C {found} cluster-down")
        _end_all(layout)
        for file in (layout.kubeconfig, layout.env):
            file.unlink(missing_ok=True)
    say("the cluster and its data are gone; programs and images are kept for the next one")


def running(layout: Layout = LAYOUT) -> list[str]:
    records = Records(layout.records)
    return [name for name in records.names() if records.running(name) is not None]


def _say_what_comes(layout: Layout) -> None:
    to_build, to_install = binaries.missing(layout=layout), packages.missing()
    if to_build or to_install:
        say("setting up a Kubernetes node and a Temporal server; for the first time on this machine: about 10 minutes")
        binaries.announce(to_build)
    elif not running(layout):
        say("setting up a Kubernetes node and a Temporal server: under a minute")


def _take_over(layout: Layout) -> None:
    found = ownership.owner(layout)
    if found is not None and found != layout.checkout:
        alive = running(layout)
        # Nobody can use a cluster whose checkout is gone, and CI has its machine to itself.
        if alive and found.exists() and os.environ.get("CI") != "true":
            raise Problem(
                f"the cluster of another checkout runs on this machine: {found} ({', '.join(alive)})",
                cure=f"make -C {found} cluster-down",
            )
        with step(f"clear away what the cluster of {found} left"):
            _end_all(layout)
    elif layout.ending.exists():
        with step("end what is left of the cluster before"):
            _end_all(layout)
    ownership.claim(layout)


def _end_all(layout: Layout) -> None:
    records = Records(layout.records)
    # Interrupted from here on, the next command of either kind ends the rest first.
    layout.ending.touch()
    # The kubelet first, else it would start again what ends; storage last, so that the others end in order.
    first = ("kubelet", "kube-controller-manager", "kube-scheduler")
    for name in (
        *first,
        *(name for name in records.names() if name not in first and name not in ("etcd", "containerd")),
    ):
        stop(name, records=records, seconds=3)
    remains.end_containers(layout)
    for name in ("containerd", "etcd"):
        stop(name, records=records, seconds=5)
    remains.clear(layout)
    layout.owner.unlink(missing_ok=True)
    layout.ending.unlink(missing_ok=True)


def _prepare(layout: Layout) -> None:
    """Debian packages are fetched, and images built as far as they can be without a node, while Go compiles."""
    others = foreign.own_temporal_program(layout)
    parts = tuple(part for part in binaries.PARTS if part.name not in others)
    cold = bool(binaries.missing(parts, layout=layout))
    with ThreadPoolExecutor(max_workers=2) as pool:
        besides = pool.submit(_beside_go, cold=cold, layout=layout)
        building = pool.submit(binaries.build_missing, parts=parts, layout=layout)
        besides.result()
        building.result()
    binaries.link_programs(parts=parts, layout=layout, others=others)


def _beside_go(*, cold: bool, layout: Layout) -> None:
    packages.install_missing()
    if cold:
        images.build_ahead(layout)


def _configure(layout: Layout) -> list[Part]:
    for folder in (layout.cluster, layout.run, layout.logs, layout.config):
        folder.mkdir(parents=True, exist_ok=True)
    make_certificates(layout)
    network.make_network()
    remains.make_control_groups()
    return all_parts(layout)


def start_part(part: Part, layout: Layout = LAYOUT) -> None:
    """Start a part unless it runs, and wait until it answers: the order of the parts is that of need."""
    records, log = Records(layout.records), layout.logs / f"{part.name}.log"
    made_from = part.fingerprint()
    if records.running(part.name) is not None and records.made_from(part.name) != made_from:
        say(f"  {part.name} was started with other settings; starting it anew")
        stop(part.name, records=records)
    _await_answer_or_end(part, records)
    if records.running(part.name) is not None:
        wait_ready(part.name, part.ready, records=records, log=log, seconds=0)
        return
    _write_files(part)
    for address, port in part.listens:
        network.need_free(part.name, address, port)
    with step(f"start {part.name}"):
        start(
            part.name,
            part.command,
            records=records,
            log=log,
            extra_env=part.environment,
            made_from=made_from,
        )
        wait_ready(part.name, part.ready, records=records, log=log, seconds=part.seconds)


def _await_answer_or_end(part: Part, records: Records) -> None:
    """A part that was told to end just before this still runs for a moment."""
    wait_until(lambda: records.running(part.name) is None or part.ready(), seconds=part.seconds)


def _write_files(part: Part) -> None:
    for folder in part.folders:
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in part.files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o600)


def _settle(layout: Layout) -> None:
    """What must be in the cluster before the first Pod of a person runs."""
    layout.kubeconfig.write_text(kubeconfig(layout.certificates, "admin"))
    layout.kubeconfig.chmod(0o600)
    kubectl = kubectl_command(layout)
    archives.load_pause(layout)
    run([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", SOURCES / "cluster.yaml"])
    volumes.top_up(layout)
    with step("wait for the node"):
        if not wait_until(lambda: node_is_ready(layout), seconds=NODE_READY_SECONDS):
            state = run([*kubectl, "describe", "node", NODE])
            raise Problem(
                f"the node is not Ready after {NODE_READY_SECONDS} s",
                cure=f"read {layout.logs}/kubelet.log",
                detail=state,
            )


def kubectl_command(layout: Layout = LAYOUT) -> list[str]:
    return [str(layout.programs / "kubectl"), "--kubeconfig", str(layout.kubeconfig)]


def node_is_ready(layout: Layout = LAYOUT) -> bool:
    try:
        node = json.loads(run([*kubectl_command(layout), "get", "node", NODE, "-o", "json"]))
    except Problem:
        return False
    conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])}
    tainted = any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in node["spec"].get("taints", []))
    return conditions.get("Ready") == "True" and not tainted


def stop_part(name: str, *, by_force: bool = False, layout: Layout = LAYOUT) -> None:
    """End one part for a fault test; the next `up`, or `start`, brings it back."""
    part_named(name, layout)
    sig = signal.SIGKILL if by_force else signal.SIGTERM
    if not stop(name, records=Records(layout.records), sig=sig, seconds=20):
        say(f"{name} did not run")


def part_named(name: str, layout: Layout = LAYOUT) -> Part:
    if not (layout.certificates / "ca.crt").exists():
        raise Problem("there is no cluster", cure="make cluster")
    found = {part.name: part for part in all_parts(layout)}
    if name not in found:
        raise Problem(f"there is no part named {name}", cure=f"one of: {', '.join(found)}")
    return found[name]


def status(layout: Layout = LAYOUT) -> bool:
    """Print which parts run; whether all do."""
    if not (layout.certificates / "ca.crt").exists():
        say("there is no cluster; make cluster")
        return False
    records = Records(layout.records)
    say(f"checkout {ownership.owner(layout)}, logs {layout.logs}, address {ADDRESS}")
    all_run = True
    for part in all_parts(layout):
        identity = records.running(part.name)
        answers = identity is not None and part.ready()
        all_run = all_run and answers
        say(
            f"  {part.name:24} {'up' if answers else 'does not answer' if identity else 'down'}"
            + (f"  pid {identity.pid}" if identity else "")
        )
    return all_run
