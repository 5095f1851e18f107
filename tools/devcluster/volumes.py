"""Directories of this machine as PersistentVolumes, for claims of StorageClass `inferrun-local`.

`local` volumes have no provisioner: they must be created in advance, and a volume whose claim was
deleted remains Released forever. `top_up` deletes released volumes and creates new ones until
enough are available.
"""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from .commands import run
from .console import info
from .layout import LAYOUT, NODE, Layout

STORAGE_CLASS = "inferrun-local"
FREE_VOLUMES = 6
SIZE = "2Gi"
# The user and group of the product's Pods; the kubelet would set the set-group-ID bit for fsGroup.
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
                        {
                            "matchExpressions": [
                                {
                                    "key": "kubernetes.io/hostname",
                                    "operator": "In",
                                    "values": [NODE],
                                }
                            ]
                        }
                    ]
                }
            },
        },
    }


# Any: manifests
def plan(listed: list[dict[str, Any]], *, free: int = FREE_VOLUMES) -> tuple[list[str], int]:
    """From the existing volumes: the names of those to delete, and how many to create."""
    phases = {
        item["metadata"]["name"]: item.get("status", {}).get("phase", "Pending") for item in listed
    }
    released = sorted(name for name, phase in phases.items() if phase in ("Released", "Failed"))
    available = sum(phase in ("Available", "Pending") for phase in phases.values())
    return released, max(0, free - available)


def top_up(layout: Layout = LAYOUT, *, free: int = FREE_VOLUMES) -> None:
    kubectl = [str(layout.programs / "kubectl"), "--kubeconfig", str(layout.kubeconfig)]
    listed = json.loads(
        run([*kubectl, "get", "pv", "-l", "inferrun-devcluster=local", "-o", "json"])
    )["items"]
    released, missing = plan(listed, free=free)
    if released:
        # another process may delete them, too
        run([*kubectl, "delete", "pv", "--ignore-not-found", *released])
        for name in released:
            shutil.rmtree(layout.volumes / name, ignore_errors=True)
    created = [_create_folder(layout) for _ in range(missing)]
    if created:
        items = [volume(folder.name, folder) for folder in created]
        run(
            [*kubectl, "create", "-f", "-"],
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        )
    if released:
        info(
            f"  volumes: {len(created)} created, {len(released)} released ones deleted (StorageClass {STORAGE_CLASS})"
        )


def _create_folder(layout: Layout) -> Path:
    folder = layout.volumes / f"local-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    shutil.chown(folder, user=RUN_AS, group=RUN_AS)
    folder.chmod(MODE)
    return folder
