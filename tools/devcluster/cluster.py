"""Creates and deletes the cluster; both operations may be interrupted at any point and repeated.

up creates only what is missing and starts only what is not running. It never touches a running
cluster that another checkout owns; one whose processes have all exited is removed. down stops only
the processes that were started here.
"""

import json
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from . import (
    archives,
    binaries,
    cleanup,
    existing_cluster,
    images,
    network,
    ownership,
    packages,
    volumes,
)
from .certificates import create_certificates, kubeconfig
from .commands import run
from .components import Component, all_components, containerd
from .console import duration, info, plan, step
from .env_file import own_values, write_env_file
from .errors import DevClusterError
from .images import Image
from .layout import ADDRESS, LAYOUT, NODE, SOURCES, Layout
from .processes import ProcessRecords, stop, wait_until
from .startup import running, start_component

NODE_READY_SECONDS = 90
PACKAGES_COST = 25.0
STARTUP_STEP = "start the components"
STARTUP_COST = 20.0


def up(layout: Layout = LAYOUT, *, required_images: Sequence[Image] = ()) -> None:
    """Create or repair the cluster and load the required images."""
    configured = existing_cluster.from_environment()
    layout.client_dir.mkdir(exist_ok=True)
    if configured.context:
        existing_cluster.attach(configured, layout)
    else:
        _create(layout, configured, required_images)
    if required_images:
        images.load_all(required_images, layout=layout)


def _create(
    layout: Layout, configured: existing_cluster.Configured, required_images: Sequence[Image]
) -> None:
    ownership.require_root("make cluster")
    began = time.monotonic()
    if configured.temporal:
        existing_cluster.check_temporal(configured)
    early_images = required_images or (
        images.PRODUCT_IMAGES if binaries.missing(layout=layout) else ()
    )
    with ownership.lock(layout), plan(expected_costs(layout, early_images)):
        _claim_machine(layout)
        _announce(layout)
        _prepare(layout, early_images)
        with step(STARTUP_STEP):
            for component in all_components(layout):
                if not (component.name == "temporal" and configured.temporal):
                    start_component(component, layout)
            _finish(layout)
        values = existing_cluster.temporal_values(configured) if configured.temporal else {}
        write_env_file(layout, values=own_values(layout) | values)
    info(
        f"cluster ready in {duration(time.monotonic() - began)}; to use it: . .devcluster/env && $INFERRUN_BIN/kubectl get nodes"
    )


def down(layout: Layout = LAYOUT) -> None:
    """Delete the cluster and its data. An existing cluster of the user is not changed."""
    if context := existing_cluster.from_environment().context:
        existing_cluster.detach(layout)
        info(f"no longer using the cluster of context {context}")
        return
    ownership.require_root("make cluster-down")
    with ownership.lock(layout), step("delete the cluster"):
        owner = ownership.owner(layout)
        if owner is not None and owner != layout.checkout and running(layout):
            raise DevClusterError(
                f"the cluster on this machine belongs to {owner}",
                fix=f"make -C {owner} cluster-down",
            )
        _stop_all(layout)
        for file in (layout.kubeconfig, layout.env):
            file.unlink(missing_ok=True)
    info("deleted the cluster and its data; compiled programs and images are kept")


def expected_costs(layout: Layout, early_images: Sequence[Image]) -> dict[str, float]:
    """Expected core-seconds of the steps that have not been done on this machine."""
    modules = binaries.missing(layout=layout)
    costs = {module.step_name: module.cost for module in modules}
    if packages.missing():
        costs[packages.INSTALL_STEP] = PACKAGES_COST
    return {**costs, **images.expected_costs(early_images), STARTUP_STEP: STARTUP_COST}


def _announce(layout: Layout) -> None:
    first = (
        "; the first time on a machine takes about 10 minutes"
        if binaries.missing(layout=layout)
        else ""
    )
    if first or not running(layout):
        info(f"setting up a Kubernetes node and a Temporal server{first}")


def _claim_machine(layout: Layout) -> None:
    """Become the owner of the machine's cluster, after removing the remains of a previous one."""
    owner = ownership.owner(layout)
    if owner is not None and owner != layout.checkout:
        alive = running(layout)
        # If its checkout has been deleted, the cluster is of no use to anyone; in CI, nothing else
        # uses the machine.
        if alive and owner.exists() and os.environ.get("CI") != "true":
            raise DevClusterError(
                f"the cluster of another checkout is running on this machine: {owner} ({', '.join(alive)})",
                fix=f"make -C {owner} cluster-down",
            )
        with step(f"remove the cluster of {owner}"):
            _stop_all(layout)
    elif layout.shutdown_marker.exists():
        with step("finish the interrupted shutdown of the previous cluster"):
            _stop_all(layout)
    ownership.claim(layout)


def _stop_all(layout: Layout) -> None:
    records = ProcessRecords(layout.process_records)
    # If this is interrupted, the next command finishes it first.
    layout.shutdown_marker.touch()
    # First what would restart other processes, last what the others store their data in.
    first = ("kubelet", "kube-controller-manager", "kube-scheduler")
    last = ("containerd", "etcd")
    for name in (*first, *(name for name in records.names() if name not in first + last)):
        stop(name, records=records, seconds=3)
    cleanup.kill_containers(layout)
    for name in last:
        stop(name, records=records, seconds=5)
    cleanup.remove_all(layout)
    layout.owner.unlink(missing_ok=True)
    layout.shutdown_marker.unlink(missing_ok=True)


def _prepare(layout: Layout, early_images: Sequence[Image]) -> None:
    """Install packages, then build and load images, while Go compiles: building images mostly waits
    for network and disk."""
    others = existing_cluster.own_temporal_program(layout)
    modules = tuple(module for module in binaries.MODULES if module.name not in others)

    with ThreadPoolExecutor(max_workers=2) as pool:
        preparing = pool.submit(_prepare_images, early_images, layout=layout)
        compiling = pool.submit(binaries.build_missing, modules=modules, layout=layout)
        preparing.result()
        compiling.result()
    binaries.link_programs(modules=modules, layout=layout, others=others)


def _prepare_images(early_images: Sequence[Image], *, layout: Layout) -> None:
    """Loading images requires containerd, but no other component."""
    packages.install_missing()
    _prepare_machine(layout)
    start_component(containerd(layout), layout)
    images.load_early(early_images, layout=layout)


def _prepare_machine(layout: Layout) -> None:
    for folder in (layout.cluster, layout.run, layout.logs, layout.config):
        folder.mkdir(parents=True, exist_ok=True)
    create_certificates(layout)
    network.create_network()
    cleanup.create_cgroups()


def _finish(layout: Layout) -> None:
    """Add to the cluster what must exist before the first Pod runs, and wait for the node."""
    layout.kubeconfig.write_text(kubeconfig(layout.certificates, "admin"))
    layout.kubeconfig.chmod(0o600)
    kubectl = kubectl_command(layout)
    archives.load_pause(layout)
    run([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", SOURCES / "cluster.yaml"])
    volumes.top_up(layout)
    with step("wait for the node"):
        if not wait_until(lambda: node_is_ready(layout), seconds=NODE_READY_SECONDS):
            raise DevClusterError(
                f"the node is not Ready after {NODE_READY_SECONDS} s",
                fix=f"see {layout.logs}/kubelet.log",
                detail=run([*kubectl, "describe", "node", NODE]),
            )


def kubectl_command(layout: Layout = LAYOUT) -> list[str]:
    return [str(layout.programs / "kubectl"), "--kubeconfig", str(layout.kubeconfig)]


def node_is_ready(layout: Layout = LAYOUT) -> bool:
    try:
        node = json.loads(run([*kubectl_command(layout), "get", "node", NODE, "-o", "json"]))
    except DevClusterError:
        return False
    conditions = {
        condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])
    }
    tainted = any(
        taint["key"].startswith("node.kubernetes.io/not-ready")
        for taint in node["spec"].get("taints", [])
    )
    return conditions.get("Ready") == "True" and not tainted


def stop_component(name: str, *, force: bool = False, layout: Layout = LAYOUT) -> None:
    """Stop one component for a fault test; the next `up` or `start` starts it again."""
    component_named(name, layout)
    sig = signal.SIGKILL if force else signal.SIGTERM
    if not stop(name, records=ProcessRecords(layout.process_records), sig=sig, seconds=20):
        info(f"{name} was not running")


def component_named(name: str, layout: Layout = LAYOUT) -> Component:
    if not (layout.certificates / "ca.crt").exists():
        raise DevClusterError("there is no cluster", fix="make cluster")
    found = {component.name: component for component in all_components(layout)}
    if name not in found:
        raise DevClusterError(f"unknown component {name}", fix=f"use one of: {', '.join(found)}")
    return found[name]


def status(layout: Layout = LAYOUT) -> bool:
    """Print the state of each component; whether all of them are up."""
    if not (layout.certificates / "ca.crt").exists():
        info("there is no cluster; to create it: make cluster")
        return False
    records = ProcessRecords(layout.process_records)
    info(f"checkout {ownership.owner(layout)}, logs {layout.logs}, address {ADDRESS}")
    all_up = True
    for component in all_components(layout):
        identity = records.running(component.name)
        is_up = identity is not None and component.ready()
        all_up = all_up and is_up
        info(
            f"  {component.name:24} {'up' if is_up else 'not responding' if identity else 'down'}"
            + (f"  pid {identity.pid}" if identity else "")
        )
    return all_up
