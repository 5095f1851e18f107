"""Folders of this machine as PersistentVolumes, for claims of StorageClass `inferrun-local`.

A `local` volume has no provisioner: somebody must make volumes ahead, and one whose claim is gone stays Released for
ever. `top_up` does both: it removes what was released, and makes fresh volumes until enough are free.
"""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from .commands import run
from .layout import LAYOUT, NODE, Layout
from .narration import say

STORAGE_CLASS = "inferrun-local"
FREE_VOLUMES = 6
SIZE = "2Gi"
# The product's Pods run as this user and group; set-group-id is what the kubelet would set for fsGroup.
RUN_AS = 65532
MODE = 0o2775


def volume(name: str, folder: Path) -> dict[str, Any]:  # Any: a manifest
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"inferrun-devcluster": "local"}},
        "spec": {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "local": {"path": str(folder)},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
                    ]
                }
            },
        },
    }


def plan(listed: list[dict[str, Any]], *, free: int = FREE_VOLUMES) -> tuple[list[str], int]:  # Any: manifests
    """From the volumes that there are: the names to remove, and how many to make."""
    phases = {item["metadata"]["name"]: item.get("status", {}).get("phase", "Pending") for item in listed}
    released = sorted(name for name, phase in phases.items() if phase in ("Released", "Failed"))
    available = sum(phase in ("Available", "Pending") for phase in phases.values())
    return released, max(0, free - available)


def top_up(layout: Layout = LAYOUT, *, free: int = FREE_VOLUMES) -> None:
    kubectl = [str(layout.programs / "kubectl"), "--kubeconfig", str(layout.kubeconfig)]
    listed = json.loads(run([*kubectl, "get", "pv", "-l", "inferrun-devcluster=local", "-o", "json"]))["items"]
    released, wanted = plan(listed, free=free)
    if released:
        run([*kubectl, "delete", "pv", *released])
        for name in released:
            shutil.rmtree(layout.volumes / name, ignore_errors=True)
    fresh = [_make_folder(layout) for _ in range(wanted)]
    if fresh:
        items = [volume(folder.name, folder) for folder in fresh]
        run([*kubectl, "create", "-f", "-"], given=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        say(f"  volumes: {len(fresh)} made, {len(released)} released ones removed (StorageClass {STORAGE_CLASS})")


def _make_folder(layout: Layout) -> Path:
    folder = layout.volumes / f"local-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    shutil.chown(folder, user=RUN_AS, group=RUN_AS)
    folder.chmod(MODE)
    return folder
