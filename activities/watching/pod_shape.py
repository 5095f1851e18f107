"""What a Pod executes, reduced to a digest, so that a Pod can be compared with the template of its Job. Pure.

Users who may create Pods can give one the labels and the owner reference of a Job's Pods. What they cannot do is have
it count without running the same program on the same contract: the digest covers the container's image, command,
environment and the mounts that we define. Admission may add containers, volumes, environment variables, image digests
and a user, as OpenShift does; the digest ignores them.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from typing import Final

from activities.launching.manifests import CONTAINER, CONTRACT_PATH, DATA_PATH, ENDPOINTS_PATH
from inferrun.kube.objects import Object

KEPT_SHAPE: Final = "shape"
"""Key in the metadata of a trimmed object, whose spec is not kept."""

_OUR_VARIABLES: Final = ("INFERRUN_", "pod_uid", "HOME")
_OUR_MOUNTS: Final = ("/tmp", CONTRACT_PATH, ENDPOINTS_PATH, DATA_PATH)  # noqa: S108 -- a path in the container
_PROGRAM_FIELDS: Final = (
    "command",
    "args",
    "workingDir",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)


def shape_of_pod(pod: Object) -> str:
    """The digest of a Pod, also of a trimmed one."""
    kept = pod["metadata"].get(KEPT_SHAPE)
    return str(kept) if kept is not None else _shape_of(pod.get("spec") or {})


def shape_of_job(job: Object) -> str:
    """The digest that the Pods of a Job have, also of a trimmed one."""
    kept = job["metadata"].get(KEPT_SHAPE)
    template = (job.get("spec") or {}).get("template") or {}
    return str(kept) if kept is not None else _shape_of(template.get("spec") or {})


def split_by_shape(pods: Iterable[Object], *, shape: str) -> tuple[list[Object], list[Object]]:
    """The Pods with this shape, and the others."""
    genuine: list[Object] = []
    others: list[Object] = []
    for pod in pods:
        (genuine if shape and shape_of_pod(pod) == shape else others).append(pod)
    return genuine, others


def _shape_of(spec: Object) -> str:
    container = next((one for one in spec.get("containers") or [] if one.get("name") == CONTAINER), None)
    if container is None:
        return ""
    image = str(container.get("image", ""))
    name, at, _ = image.partition("@")
    if at and ":" in name.rpartition("/")[2]:
        image = name  # an admission webhook adds a digest to a tag
    shape = {
        "image": image,
        "program": {field: container[field] for field in _PROGRAM_FIELDS if container.get(field)},
        "environment": _environment(container),
        "mounts": _mounts(container, spec),
    }
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
    return sys.intern(hashlib.sha256(text.encode()).hexdigest()[:32])


def _environment(container: Object) -> list[list[object]]:
    found: list[list[object]] = []
    for variable in container.get("env") or []:
        name = str(variable.get("name", ""))
        if not name.startswith(_OUR_VARIABLES):
            continue
        source = (variable.get("valueFrom") or {}).get("fieldRef")
        found.append([name, source.get("fieldPath") if source else variable.get("value", "")])
    return found


def _mounts(container: Object, spec: Object) -> list[list[object]]:
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or []}
    found: list[list[object]] = []
    for mount in container.get("volumeMounts") or []:
        path = str(mount.get("mountPath", ""))
        if not any(path == ours or path.startswith(f"{ours}/") for ours in _OUR_MOUNTS):
            continue
        volume = volumes.get(mount.get("name")) or {}
        sources = {
            kind: {key: value for key, value in source.items() if key != "defaultMode"}
            for kind, source in volume.items()
            if isinstance(source, dict)
        }
        found.append([path, mount.get("subPath", ""), bool(mount.get("readOnly")), sources])
    return sorted(found, key=lambda one: str(one[0]))
